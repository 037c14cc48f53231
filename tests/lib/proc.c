// SPDX-License-Identifier: MIT
/* What /proc says of this process: descriptors, threads, mappings, memory. */
#include "proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_userfaultfd(const char *name)
{
	char path[300], target[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%s", name);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = '\0';
	return strcmp(target, "anon_inode:[userfaultfd]") == 0;
}

/* The kernel's own workers for io_uring end when they like. */
static bool is_kernel_worker(const char *tid)
{
	char path[300], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", tid);
	f = fopen(path, "r");
	if (f && !fgets(name, sizeof(name), f))
		name[0] = '\0';
	if (f)
		fclose(f);
	return strncmp(name, "iou-", 4) == 0;
}

void proc_census(struct proc_census *c)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;

	*c = (struct proc_census){0};
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		c->fds++;
		c->userfaultfds += is_userfaultfd(e->d_name);
	}
	if (d)
		closedir(d);
	d = opendir("/proc/self/task");
	while (d && (e = readdir(d)))
		c->threads +=
			e->d_name[0] != '.' && !is_kernel_worker(e->d_name);
	if (d)
		closedir(d);
}

static bool has_uffd_flag(const char *line)
{
	return strstr(line, " uw") || strstr(line, " um") ||
	       strstr(line, " ui");
}

void proc_range(const void *addr, size_t len, struct proc_range *out)
{
	uintptr_t from = (uintptr_t)addr, to = from + len;
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512];
	bool inside = false;

	*out = (struct proc_range){0};
	while (f && fgets(line, sizeof(line), f)) {
		uintptr_t start, end;
		uint64_t kib;

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) ==
		    2) {
			inside = start < to && from < end;
			out->mappings += inside;
		} else if (!inside) {
			continue;
		} else if (sscanf(line, "AnonHugePages: %" SCNu64, &kib) == 1) {
			out->anon_huge_bytes += kib << 10;
		} else if (strncmp(line, "VmFlags:", 8) == 0) {
			out->uffd_mappings += has_uffd_flag(line);
		}
	}
	if (f)
		fclose(f);
}

uint64_t proc_status_bytes(const char *field)
{
	FILE *f = fopen("/proc/self/status", "r");
	size_t n = strlen(field);
	uint64_t bytes = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, field, n) == 0 && line[n] == ':')
			bytes = strtoull(line + n + 1, NULL, 10) << 10;
	if (f)
		fclose(f);
	return bytes;
}

void proc_reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "5", 1) != 1)
		perror("clear_refs");
	close(fd);
}

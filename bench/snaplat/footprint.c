// SPDX-License-Identifier: MIT
/* What /proc says of another process's RAM, without touching it. */
#include "footprint.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES 4096
#define ENTRY_PRESENT (UINT64_C(1) << 63)
#define ENTRY_SWAPPED (UINT64_C(1) << 62)
#define ENTRY_SOFT_DIRTY (UINT64_C(1) << 55)

static int open_proc(int pid, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, flags | O_CLOEXEC);
}

/* Entries of the page map: Documentation/admin-guide/mm/pagemap.rst. */
static bool count_range(int fd, const struct range *r, struct footprint *out)
{
	static uint64_t entries[ENTRIES];
	uint64_t page = r->start / 4096, left = r->length / 4096;

	while (left) {
		size_t n = left < ENTRIES ? left : ENTRIES;
		ssize_t got = pread(fd, entries, n * 8, (off_t)(page * 8));

		if (got <= 0)
			return false;
		n = (size_t)got / 8;
		for (size_t i = 0; i < n; i++) {
			out->present += entries[i] >> 63;
			out->swapped += (entries[i] & ENTRY_SWAPPED) != 0;
			out->soft_dirty +=
				(entries[i] & ENTRY_SOFT_DIRTY) &&
				(entries[i] & (ENTRY_PRESENT | ENTRY_SWAPPED));
		}
		page += n;
		left -= n;
	}
	return true;
}

static bool inside(const struct range *ranges, size_t n, uint64_t start,
		   uint64_t end)
{
	for (size_t i = 0; i < n; i++)
		if (start < ranges[i].start + ranges[i].length &&
		    ranges[i].start < end)
			return true;
	return false;
}

static void add_field(const char *line, struct footprint *out)
{
	uint64_t kib;

	if (sscanf(line, "AnonHugePages: %" SCNu64, &kib) == 1 ||
	    sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1 ||
	    sscanf(line, "FilePmdMapped: %" SCNu64, &kib) == 1 ||
	    sscanf(line, "Private_Hugetlb: %" SCNu64, &kib) == 1 ||
	    sscanf(line, "Shared_Hugetlb: %" SCNu64, &kib) == 1)
		out->huge_bytes += kib << 10;
	else if (sscanf(line, "Referenced: %" SCNu64, &kib) == 1)
		out->referenced_bytes += kib << 10;
}

static bool read_smaps(int pid, const struct range *ranges, size_t n,
		       struct footprint *out)
{
	int fd = open_proc(pid, "smaps", O_RDONLY);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char line[512];
	bool ours = false;
	uint64_t start, end;

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
			ours = inside(ranges, n, start, end);
		else if (ours)
			add_field(line, out);
	fclose(f);
	return true;
}

bool footprint_read(int pid, const struct range *ranges, size_t n,
		    struct footprint *out)
{
	int fd = open_proc(pid, "pagemap", O_RDONLY);
	bool ok = fd >= 0;

	*out = (struct footprint){0};
	for (size_t i = 0; ok && i < n; i++)
		ok = count_range(fd, &ranges[i], out);
	if (fd >= 0)
		close(fd);
	return ok && read_smaps(pid, ranges, n, out);
}

/* A page just written to has the bit, where there is one. */
bool footprint_has_soft_dirty(void)
{
	struct footprint found;
	struct range range = {.length = 4096};
	volatile char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool ok;

	if (p == MAP_FAILED)
		return false;
	*p = 1;
	range.start = (uintptr_t)p;
	ok = footprint_read(getpid(), &range, 1, &found) && found.soft_dirty;
	munmap((void *)(uintptr_t)p, 4096);
	return ok;
}

bool footprint_clear(int pid, const char *what)
{
	int fd = open_proc(pid, "clear_refs", O_WRONLY);
	bool ok = fd >= 0 && write(fd, what, 1) == 1;

	if (fd >= 0)
		close(fd);
	return ok;
}

bool footprint_has_kvm(int pid)
{
	char path[300], target[64];
	struct dirent *e;
	bool found = false;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, e->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = '\0';
		found = strcmp(target, "anon_inode:kvm-vm") == 0;
	}
	if (d)
		closedir(d);
	return found;
}

unsigned footprint_threads(int pid)
{
	char path[64];
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

void footprint_name(int pid, char *name, size_t room)
{
	int fd = open_proc(pid, "comm", O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, name, room - 1);

	name[n > 0 ? n : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
	if (fd >= 0)
		close(fd);
}

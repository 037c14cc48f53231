// SPDX-License-Identifier: MIT
/* The mappings of a process, from /proc/PID/maps (and smaps for one figure). */
#include "maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "sys.h"
#include "util/util.h"

static int explain_open(pid_t pid, int err, const char *path)
{
	if (pid && (err == -ENOENT || err == -ESRCH))
		return error_set(-ESRCH, SNAP_FAILURE_GONE,
				 "there is no process %d", (int)pid);
	return error_sys(err,
			 pid ? SNAP_FAILURE_REFUSED : SNAP_FAILURE_INTERNAL,
			 "cannot open %s", path);
}

/* A whole proc file as a string to be freed, or NULL with *err set. */
static char *read_proc(pid_t pid, const char *leaf, int *err)
{
	size_t room = 64 * KIB, used = 0;
	char path[64], *text = NULL, *more;
	ssize_t n = 0;
	int fd;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, leaf);
	else
		snprintf(path, sizeof(path), "/proc/self/%s", leaf);
	fd = sys_open(path, O_RDONLY, 0);
	if (fd < 0) {
		*err = explain_open(pid, fd, path);
		return NULL;
	}
	do {
		more = realloc(text, room);
		if (!more) {
			n = error_nomem(path);
			break;
		}
		text = more;
		n = sys_read(fd, text + used, room - used - 1);
		if (n > 0)
			used += (size_t)n;
		if (room - used < 4 * KIB)
			room *= 2;
	} while (n > 0);
	sys_close(fd);
	if (n < 0) {
		if (n != -ENOMEM)
			error_sys((int)n, SNAP_FAILURE_INTERNAL,
				  "cannot read %s", path);
		*err = (int)n;
		free(text);
		return NULL;
	}
	text[used] = '\0';
	return text;
}

bool maps_parse_line(const char *line, struct vma *out)
{
	char perms[5];
	int at = -1;
	size_t len;

	memset(out, 0, sizeof(*out));
	if (sscanf(line,
		   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64
		   " %n",
		   &out->start, &out->end, perms, &out->offset, &out->dev_major,
		   &out->dev_minor, &out->inode, &at) < 7 ||
	    at < 0)
		return false;
	out->read = perms[0] == 'r';
	out->write = perms[1] == 'w';
	out->exec = perms[2] == 'x';
	out->shared = perms[3] == 's';
	len = strcspn(line + at, "\n");
	if (len >= MAPS_NAME_MAX)
		len = MAPS_NAME_MAX - 1;
	memcpy(out->name, line + at, len);
	return true;
}

int maps_load(struct maps *m, pid_t pid)
{
	char *text, *line, *next;
	size_t lines = 0;
	int err = 0;

	m->vmas = NULL;
	m->count = 0;
	text = read_proc(pid, "maps", &err);
	if (!text)
		return err;
	for (line = text; *line; line++)
		lines += *line == '\n';
	m->vmas = calloc(lines + 1, sizeof(*m->vmas));
	if (!m->vmas) {
		free(text);
		return error_nomem("the list of mappings");
	}
	for (line = text; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (m->count < lines &&
		    maps_parse_line(line, &m->vmas[m->count]))
			m->count++;
	}
	free(text);
	return 0;
}

void maps_free(struct maps *m)
{
	free(m->vmas);
	m->vmas = NULL;
	m->count = 0;
}

const struct vma *maps_find(const struct maps *m, uint64_t addr)
{
	size_t lo = 0, hi = m->count, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (m->vmas[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < m->count ? &m->vmas[lo] : NULL;
}

int maps_page_size(pid_t pid, uint64_t start, uint64_t *bytes)
{
	char *text, *at, head[32];
	uint64_t kib;
	int err = 0;

	text = read_proc(pid, "smaps", &err);
	if (!text)
		return err;
	snprintf(head, sizeof(head), "\n%" PRIx64 "-", start);
	at = strstr(text, head);
	if (!at && !strncmp(text, head + 1, strlen(head + 1)))
		at = text;
	at = at ? strstr(at, "KernelPageSize:") : NULL;
	if (!at || sscanf(at, "KernelPageSize: %" SCNu64, &kib) != 1) {
		free(text);
		return error_set(-EFAULT, SNAP_FAILURE_REFUSED,
				 "no mapping starts at 0x%" PRIx64, start);
	}
	*bytes = kib * KIB;
	free(text);
	return 0;
}

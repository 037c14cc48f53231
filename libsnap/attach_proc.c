// SPDX-License-Identifier: MIT
/* /proc of a target, read through a descriptor of /proc/PID, without malloc. */
#include "attach_proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach_sys.h"
#include "sys.h"

/* As the kernel gives them: struct linux_dirent64. */
struct entry {
	uint64_t ino;
	int64_t off;
	unsigned short reclen;
	unsigned char type;
	char name[];
};

int attach_proc_open(int proc_fd, pid_t tid, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "task/%d/%s", tid, name);
	return sys_openat(proc_fd, path, flags);
}

/*
 * Find "@key:" at the start of a line in what @fd gives.  Lines are cut at the
 * buffer, which only the list of groups can reach: a cut line's rest is taken
 * for a line of its own, and holds nothing but numbers.
 */
static int find_field(int fd, const char *key, char *value, size_t size)
{
	size_t have = 0, key_len = strlen(key);
	char buf[1024];

	for (;;) {
		ssize_t n = sys_read(fd, buf + have, sizeof(buf) - 1 - have);
		char *line = buf, *end;

		if (n <= 0)
			return n ? (int)n : -ENODATA;
		have += (size_t)n;
		buf[have] = '\0';
		while ((end = strchr(line, '\n')) != NULL) {
			*end = '\0';
			if (!strncmp(line, key, key_len) &&
			    line[key_len] == ':') {
				snprintf(value, size, "%s", line + key_len + 1);
				return 0;
			}
			line = end + 1;
		}
		have -= (size_t)(line - buf);
		memmove(buf, line, have);
		if (have == sizeof(buf) - 1)
			have = 0;
	}
}

int attach_proc_status(int proc_fd, pid_t tid, const char *key, int base,
		       uint64_t *out)
{
	int fd = attach_proc_open(proc_fd, tid, "status", O_RDONLY);
	char value[64];
	int err;

	if (fd < 0)
		return fd;
	err = find_field(fd, key, value, sizeof(value));
	sys_close(fd);
	if (!err)
		*out = strtoull(value, NULL, base);
	return err;
}

int attach_proc_task(int proc_fd, pid_t tid, struct attach_task *out)
{
	int fd = attach_proc_open(proc_fd, tid, "stat", O_RDONLY);
	char buf[512], *p;
	ssize_t n;

	if (fd < 0)
		return fd;
	n = sys_read(fd, buf, sizeof(buf) - 1);
	sys_close(fd);
	if (n < 0)
		return (int)n;
	buf[n] = '\0';
	/* "PID (name) S ppid pgrp session tty tpgid flags ...": the name may
	 * hold anything, also ")". */
	p = strrchr(buf, ')');
	if (!p || sscanf(p + 1, " %c %*d %*d %*d %*d %*d %u", &out->state,
			 &out->flags) != 2)
		return -ESRCH;
	return 0;
}

int attach_tasks_open(struct attach_tasks *w, int proc_fd)
{
	w->at = w->have = 0;
	w->fd = sys_openat(proc_fd, "task", O_RDONLY | O_DIRECTORY);
	return w->fd < 0 ? w->fd : 0;
}

pid_t attach_tasks_next(struct attach_tasks *w)
{
	for (;;) {
		const struct entry *e;

		if (w->at == w->have) {
			ssize_t n = sys_getdents(w->fd, w->buf, sizeof(w->buf));

			if (n <= 0)
				return (pid_t)n;
			w->at = 0;
			w->have = (size_t)n;
		}
		e = (const struct entry *)(w->buf + w->at);
		w->at += e->reclen;
		if (e->name[0] != '.')
			return (pid_t)strtol(e->name, NULL, 10);
	}
}

void attach_tasks_close(struct attach_tasks *w)
{
	sys_close(w->fd);
}

// SPDX-License-Identifier: MIT
/*
 * Opens a process that is to be attached to, or refuses it untouched.
 *
 * The pidfd is opened first and asked last: when the process is still there at
 * the end, its number was its own all the time, and so were the descriptors
 * opened by that number.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach_internal.h"
#include "attach_proc.h"
#include "attach_sys.h"
#include "sys.h"
#include "util/util.h"

static int gone(pid_t pid)
{
	return error_set(-ESRCH, SNAP_FAILURE_GONE,
			 "process %d does not exist (any more)", pid);
}

static int open_ids(struct attach_target *t)
{
	char path[32];

	t->pidfd = sys_pidfd_open(t->pid, 0);
	if (t->pidfd == -ESRCH)
		return gone(t->pid);
	/* -EINVAL until 6.14, -ENOENT since: it is a thread, not a leader. */
	if (t->pidfd == -EINVAL || t->pidfd == -ENOENT)
		return error_set(-EINVAL, SNAP_FAILURE_REFUSED,
				 "%d is a thread, not a process: give the "
				 "process it belongs to (Tgid in "
				 "/proc/%d/status)",
				 t->pid, t->pid);
	if (t->pidfd < 0)
		return error_sys(t->pidfd, SNAP_FAILURE_INTERNAL,
				 "cannot open a pidfd for process %d", t->pid);
	snprintf(path, sizeof(path), "/proc/%d", t->pid);
	t->proc_fd = sys_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (t->proc_fd == -ENOENT)
		return gone(t->pid);
	if (t->proc_fd < 0)
		return error_sys(t->proc_fd, SNAP_FAILURE_INTERNAL,
				 "cannot open %s", path);
	return 0;
}

/* Any task that is not dead; 0: none. */
static pid_t living_task(const struct attach_target *t)
{
	struct attach_task task;
	struct attach_tasks w;
	pid_t tid;

	if (attach_tasks_open(&w, t->proc_fd))
		return 0;
	while ((tid = attach_tasks_next(&w)) > 0)
		if (!attach_proc_task(t->proc_fd, tid, &task) &&
		    task.state != 'Z' && task.state != 'X')
			break;
	attach_tasks_close(&w);
	return tid > 0 ? tid : 0;
}

static int check_task(struct attach_target *t)
{
	struct attach_task task;
	uint64_t tracer = 0;

	if (attach_proc_task(t->proc_fd, t->pid, &task))
		return gone(t->pid);
	if (task.flags & TASK_KERNEL)
		return error_set(-ENOTSUP, SNAP_FAILURE_REFUSED,
				 "process %d is a kernel thread: it has no "
				 "memory of its own",
				 t->pid);
	t->tid = t->pid;
	if (task.state == 'Z' || task.state == 'X')
		t->tid = living_task(t);
	if (!t->tid)
		return error_set(-ESRCH, SNAP_FAILURE_REFUSED,
				 "process %d is a zombie: it has ended, and "
				 "its parent has not asked for its status yet",
				 t->pid);
	if (attach_proc_status(t->proc_fd, t->tid, "TracerPid", 10, &tracer))
		return gone(t->pid);
	if (tracer)
		return error_set(-EBUSY, SNAP_FAILURE_REFUSED,
				 "process %d is traced by process %d already, "
				 "and there can be one tracer: detach that one "
				 "(a debugger, strace, another snapshot)",
				 t->pid, (int)tracer);
	return 0;
}

static int refuse_no_right(const struct attach_target *t)
{
	uint64_t uid = 0;

	attach_proc_status(t->proc_fd, t->tid, "Uid", 10, &uid);
	return error_set(-EPERM, SNAP_FAILURE_REFUSED,
			 "no right to trace process %d of user %" PRIu64
			 ": run as that user or with CAP_SYS_PTRACE, and "
			 "CAP_DAC_READ_SEARCH where it has changed its user "
			 "(kernel.yama.ptrace_scope, a security module or a "
			 "container may forbid it as well)",
			 t->pid, uid);
}

static int open_memory(struct attach_target *t)
{
	t->mem_fd = attach_proc_open(t->proc_fd, t->tid, "mem", O_RDONLY);
	if (t->mem_fd == -EACCES || t->mem_fd == -EPERM)
		return refuse_no_right(t);
	if (t->mem_fd == -ENOENT || t->mem_fd == -ESRCH)
		return gone(t->pid);
	if (t->mem_fd < 0)
		return error_sys(t->mem_fd, SNAP_FAILURE_INTERNAL,
				 "cannot open the memory of process %d",
				 t->pid);
	return 0;
}

static int check_word_size(const struct attach_target *t)
{
	int fd = attach_proc_open(t->proc_fd, t->tid, "exe", O_RDONLY);
	unsigned char ident[EI_NIDENT] = {0};
	ssize_t n;

	/* Not to be had by everybody; the stopped threads will tell. */
	if (fd < 0)
		return 0;
	n = sys_pread(fd, ident, sizeof(ident), 0);
	sys_close(fd);
	if (n == sizeof(ident) && !memcmp(ident, ELFMAG, SELFMAG) &&
	    ident[EI_CLASS] == ELFCLASS32)
		return error_set(-ENOTSUP, SNAP_FAILURE_REFUSED,
				 "process %d is a 32-bit program: only 64-bit "
				 "ones can be attached to",
				 t->pid);
	return 0;
}

/* The bytes 0f 05 in @start..@end, at whatever alignment: 0 if there are
 * none. */
static uint64_t find_instruction(int mem_fd, uint64_t start, uint64_t end)
{
	unsigned char buf[4096];

	/* Pieces overlap by the byte that could be the first of two. */
	for (uint64_t at = start; at + 1 < end; at += sizeof(buf) - 1) {
		size_t len = min_u64(sizeof(buf), end - at);
		ssize_t n = sys_pread(mem_fd, buf, len, at);

		for (ssize_t i = 0; i + 1 < n; i++)
			if (buf[i] == 0x0f && buf[i + 1] == 0x05)
				return at + (uint64_t)i;
	}
	return 0;
}

/* The vDSO is in nearly every process and the same page in all of them. */
static uint64_t search_mappings(const struct attach_target *t, FILE *maps,
				bool vdso)
{
	uint64_t start, end, found = 0;
	char line[512], mode[8];

	while (!found && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end,
			   mode) != 3)
			continue;
		if (mode[0] != 'r' || mode[2] != 'x' ||
		    strstr(line, "[vsyscall]") ||
		    (strstr(line, "[vdso]") != NULL) != vdso)
			continue;
		found = find_instruction(t->mem_fd, start, end);
	}
	return found;
}

static int find_gadget(struct attach_target *t)
{
	int fd = attach_proc_open(t->proc_fd, t->tid, "maps", O_RDONLY);
	FILE *maps;

	if (fd == -EACCES || fd == -EPERM)
		return refuse_no_right(t);
	if (fd < 0)
		return gone(t->pid);
	maps = fdopen(fd, "r");
	if (!maps) {
		sys_close(fd);
		return error_nomem("the list of mappings");
	}
	t->gadget = search_mappings(t, maps, true);
	if (!t->gadget) {
		rewind(maps);
		t->gadget = search_mappings(t, maps, false);
	}
	fclose(maps);
	return 0;
}

static int check_still_there(const struct attach_target *t)
{
	struct pollfd p = {.fd = t->pidfd, .events = POLLIN};

	if (sys_poll(&p, 1, 0) != 0)
		return gone(t->pid);
	if (!t->gadget)
		return error_set(-ENOTSUP, SNAP_FAILURE_REFUSED,
				 "process %d has no syscall instruction in its "
				 "executable memory to borrow",
				 t->pid);
	return 0;
}

int attach_target_open(struct attach_target *t, pid_t pid)
{
	int err;

	*t = (struct attach_target){
		.pid = pid, .pidfd = -1, .proc_fd = -1, .mem_fd = -1};
	if (pid <= 0)
		return error_set(-EINVAL, SNAP_FAILURE_REFUSED,
				 "%d is not the number of a process", pid);
	if (pid == getpid())
		return error_set(-EINVAL, SNAP_FAILURE_REFUSED,
				 "process %d is this program itself, which "
				 "cannot be attached to",
				 pid);
	err = open_ids(t);
	if (!err)
		err = check_task(t);
	if (!err)
		err = open_memory(t);
	if (!err)
		err = check_word_size(t);
	if (!err)
		err = find_gadget(t);
	if (!err)
		err = check_still_there(t);
	if (err)
		attach_target_close(t);
	return err;
}

void attach_target_close(struct attach_target *t)
{
	int *fds[] = {&t->mem_fd, &t->proc_fd, &t->pidfd};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		if (*fds[i] >= 0)
			sys_close(*fds[i]);
		*fds[i] = -1;
	}
}

/* SPDX-License-Identifier: MIT */
/* /proc of a target, read through a descriptor of /proc/PID, without malloc. */
#ifndef SNAP_ATTACH_PROC_H
#define SNAP_ATTACH_PROC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Task flags of /proc/PID/stat (include/linux/sched.h). */
#define TASK_IO_WORKER 0x00000010u   /* io_uring's own thread */
#define TASK_USER_WORKER 0x00004000u /* vhost, kvm-nx-lpage-recovery */
#define TASK_KERNEL 0x00200000u	     /* a kernel thread */

/** Field @key, such as "TracerPid", of task @tid as a number in @base.
 * 0, -ENODATA (no such field) or what open() and read() gave. */
int attach_proc_status(int proc_fd, pid_t tid, const char *key, int base,
		       uint64_t *out);

struct attach_task {
	char state; /* 'Z' and 'X' are dead */
	unsigned flags;
};

/** State and flags of task @tid. */
int attach_proc_task(int proc_fd, pid_t tid, struct attach_task *out);

/** Open task/@tid/@name. */
int attach_proc_open(int proc_fd, pid_t tid, const char *name, int flags);

/** Walks the ids of a process's tasks. */
struct attach_tasks {
	int fd;
	size_t at, have;
	char buf[2048] __attribute__((aligned(8)));
};

int attach_tasks_open(struct attach_tasks *w, int proc_fd);
/** The next id, 0 at the end, or -errno. */
pid_t attach_tasks_next(struct attach_tasks *w);
void attach_tasks_close(struct attach_tasks *w);

#endif

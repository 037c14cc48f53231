// SPDX-License-Identifier: MIT
/* Has the stopped target make a userfaultfd, by the way that it needs. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "attach_internal.h"
#include "attach_proc.h"
#include "attach_sys.h"
#include "sys.h"
#include "util/util.h"

#define CAPABILITY_SYS_PTRACE 19 /* include/uapi/linux/capability.h */

/*
 * userfaultfd(2) that traps faults of the kernel, too, is for everybody by
 * sysctl or for those with CAP_SYS_PTRACE (mm/userfaultfd.c).  A capability in
 * a user namespace looks the same here and does not count there: -EPERM then.
 */
static bool may_call_userfaultfd(const struct injection *in)
{
	int proc_fd = in->helper->target->proc_fd;
	uint64_t caps = 0;
	char c = '0';
	int fd;

	attach_proc_status(proc_fd, in->thread->tid, "CapEff", 16, &caps);
	if (caps >> CAPABILITY_SYS_PTRACE & 1)
		return true;
	fd = sys_open("/proc/sys/vm/unprivileged_userfaultfd", O_RDONLY, 0);
	if (fd < 0)
		return false;
	if (sys_read(fd, &c, 1) != 1)
		c = '0';
	sys_close(fd);
	return c == '1';
}

static int64_t by_device(struct injection *in)
{
	int device = sys_open("/dev/userfaultfd", O_RDWR, 0);
	int64_t uffd;

	if (device < 0)
		return device == -ENOENT ? -ENOTSUP : -EPERM;
	uffd = attach_uffd_by_device(in, device);
	sys_close(device);
	return uffd;
}

static int64_t create(struct injection *in, enum attach_method *method)
{
	enum attach_method asked = in->helper->options->method;
	int64_t fd = -EPERM;

	*method = ATTACH_SYSCALL;
	if (asked == ATTACH_SYSCALL ||
	    (asked == ATTACH_AUTO && may_call_userfaultfd(in)))
		fd = INJECT(in, SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (asked == ATTACH_SYSCALL || (asked == ATTACH_AUTO && fd != -EPERM))
		return fd;
	*method = ATTACH_DEVICE;
	return by_device(in);
}

/* Take the descriptor over and close the target's own: from then on our death
 * is all it takes to release the target. */
static int take_over(struct injection *in, int64_t theirs, int *ours)
{
	*ours = inject_steal_fd(in, (int)theirs);
	INJECT(in, SYS_close, (uint64_t)theirs);
	return *ours < 0 ? *ours : 0;
}

static int explain(const struct injection *in, int err)
{
	pid_t pid = in->helper->target->pid;

	switch (err) {
	case -EPERM:
		return error_set(
			err, SNAP_FAILURE_REFUSED,
			"process %d may not make a userfaultfd that "
			"traps faults of the kernel: give us access "
			"to /dev/userfaultfd, or it CAP_SYS_PTRACE, or "
			"set vm.unprivileged_userfaultfd to 1",
			pid);
	case -ENOSYS:
	case -ENOTSUP:
		return error_set(-ENOTSUP, SNAP_FAILURE_REFUSED,
				 "no userfaultfd for process %d: this kernel "
				 "has none, or no /dev/userfaultfd (6.1), or "
				 "none for threads that share no descriptors "
				 "(6.9)",
				 pid);
	case -EMFILE:
	case -ENFILE:
		return error_set(err, SNAP_FAILURE_REFUSED,
				 "process %d has no free file descriptor left: "
				 "raise its limit (prlimit --nofile)",
				 pid);
	case -ESRCH:
		return error_set(err, SNAP_FAILURE_GONE, "process %d has ended",
				 pid);
	case -ETIMEDOUT:
		return error_set(err, SNAP_FAILURE_REFUSED,
				 "thread %d of process %d does not run when "
				 "told to: is its cgroup frozen?",
				 in->thread->tid, pid);
	}
	return attach_error(err, SNAP_FAILURE_INTERNAL,
			    "process %d cannot make a userfaultfd", pid);
}

int attach_make_uffd(struct attach_helper *h, struct attach_reply *reply,
		     int *uffd)
{
	struct injection in;
	uint64_t from = now_ns();
	int64_t theirs;
	int err = inject_begin(&in, h);

	if (err)
		return err;
	theirs = create(&in, &reply->method);
	err = theirs < 0 ? (int)theirs : take_over(&in, theirs, uffd);
	/* Lost on the way: whatever the target has of it ends with it. */
	if (!err && in.thread->gone)
		err = -ESRCH;
	inject_end(&in);
	reply->inject_ns = now_ns() - from;
	if (err && *uffd >= 0) {
		sys_close(*uffd);
		*uffd = -1;
	}
	return err ? explain(&in, err) : 0;
}

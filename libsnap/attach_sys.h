/* SPDX-License-Identifier: MIT */
/*
 * The system calls that only attaching needs, one wrapper each: what the
 * kernel gave, or -errno.  The same test seam as sys.h.  All are safe in the
 * helper, a copy of a process with threads: nothing here allocates or locks.
 */
#ifndef SNAP_ATTACH_SYS_H
#define SNAP_ATTACH_SYS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/** @addr and @data as in ptrace(2), numbers or pointers. */
long sys_ptrace(int request, pid_t tid, uintptr_t addr, uintptr_t data);
pid_t sys_waitpid(pid_t pid, int *status, int flags);
/** 0 when the time is over, else the signal. */
int sys_sigtimedwait(const sigset_t *set, uint64_t timeout_ns);
int sys_pidfd_open(pid_t pid, unsigned flags);
int sys_pidfd_getfd(int pidfd, int fd);
/** 0: both tasks have one descriptor table, 1 .. 3: not. */
int sys_kcmp_files(pid_t a, pid_t b);
int sys_openat(int dir_fd, const char *path, int flags);
int sys_dup(int fd);
int sys_socketpair(int type, int out[2]);
int sys_shutdown(int fd);
ssize_t sys_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t sys_recvmsg(int fd, struct msghdr *msg, int flags);
int sys_kill(pid_t pid, int sig);
/** A copy of this process, as fork() makes it, but its end sends no signal and
 * no wait() of the program sees it: only waitpid() with __WALL. */
pid_t sys_fork_quiet(void);

#endif

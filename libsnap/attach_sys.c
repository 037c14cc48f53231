// SPDX-License-Identifier: MIT
/* The system calls that only attaching needs, returning -errno. */
#include "attach_sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t ret(int64_t r)
{
	return r < 0 ? -errno : r;
}

long sys_ptrace(int request, pid_t tid, uintptr_t addr, uintptr_t data)
{
	return ret(syscall(SYS_ptrace, request, tid, addr, data));
}

pid_t sys_waitpid(pid_t pid, int *status, int flags)
{
	return (pid_t)ret(waitpid(pid, status, flags));
}

int sys_sigtimedwait(const sigset_t *set, uint64_t timeout_ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(timeout_ns / 1000000000u),
		.tv_nsec = (long)(timeout_ns % 1000000000u),
	};
	int r = (int)ret(sigtimedwait(set, NULL, &t));

	return r == -EAGAIN ? 0 : r;
}

int sys_pidfd_open(pid_t pid, unsigned flags)
{
	return (int)ret(syscall(SYS_pidfd_open, pid, flags));
}

int sys_pidfd_getfd(int pidfd, int fd)
{
	return (int)ret(syscall(SYS_pidfd_getfd, pidfd, fd, 0));
}

int sys_kcmp_files(pid_t a, pid_t b)
{
	return (int)ret(syscall(SYS_kcmp, a, b, KCMP_FILES, 0, 0));
}

int sys_openat(int dir_fd, const char *path, int flags)
{
	return (int)ret(openat(dir_fd, path, flags | O_CLOEXEC));
}

int sys_dup(int fd)
{
	return (int)ret(fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

int sys_socketpair(int type, int out[2])
{
	return (int)ret(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, out));
}

int sys_shutdown(int fd)
{
	return (int)ret(shutdown(fd, SHUT_RDWR));
}

ssize_t sys_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return ret(sendmsg(fd, msg, flags | MSG_NOSIGNAL));
}

ssize_t sys_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return ret(recvmsg(fd, msg, flags | MSG_CMSG_CLOEXEC));
}

int sys_kill(pid_t pid, int sig)
{
	return (int)ret(kill(pid, sig));
}

pid_t sys_fork_quiet(void)
{
	/* No flags means fork(); the low byte, 0, is the signal at its end. */
	return (pid_t)ret(syscall(SYS_clone, 0, NULL, NULL, NULL, 0));
}

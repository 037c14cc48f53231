// SPDX-License-Identifier: MIT
/* One wrapper per system call, returning -errno. */
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched/types.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The C library gives -1 and errno; everything above wants -errno. */
static int64_t ret(int64_t r)
{
	return r < 0 ? -errno : r;
}

int sys_open(const char *path, int flags, mode_t mode)
{
	return (int)ret(open(path, flags | O_CLOEXEC, mode));
}

int sys_close(int fd)
{
	/* Never repeated on EINTR: Linux has freed the number already. */
	return (int)ret(close(fd));
}

ssize_t sys_read(int fd, void *buf, size_t len)
{
	return ret(read(fd, buf, len));
}

ssize_t sys_pread(int fd, void *buf, size_t len, uint64_t offset)
{
	return ret(pread(fd, buf, len, (off_t)offset));
}

ssize_t sys_write(int fd, const void *buf, size_t len)
{
	return ret(write(fd, buf, len));
}

ssize_t sys_pwrite(int fd, const void *buf, size_t len, uint64_t offset)
{
	return ret(pwrite(fd, buf, len, (off_t)offset));
}

ssize_t sys_write_nowait(int fd, const void *buf, size_t len)
{
	struct iovec iov = {(void *)buf, len};

	return ret(pwritev2(fd, &iov, 1, -1, RWF_NOWAIT));
}

int64_t sys_lseek(int fd, int64_t offset, int whence)
{
	return ret(lseek(fd, offset, whence));
}

int sys_fallocate(int fd, int mode, uint64_t offset, uint64_t len)
{
	return (int)ret(fallocate(fd, mode, (off_t)offset, (off_t)len));
}

int sys_ftruncate(int fd, uint64_t len)
{
	return (int)ret(ftruncate(fd, (off_t)len));
}

int sys_fsync(int fd)
{
	return (int)ret(fsync(fd));
}

int sys_fstat(int fd, struct stat *st)
{
	return (int)ret(fstat(fd, st));
}

int sys_stat(const char *path, struct stat *st)
{
	return (int)ret(stat(path, st));
}

int sys_fstatfs(int fd, struct statfs *st)
{
	return (int)ret(fstatfs(fd, st));
}

int sys_link(const char *from, const char *to)
{
	return (int)ret(link(from, to));
}

int sys_rename(const char *from, const char *to)
{
	return (int)ret(rename(from, to));
}

int sys_rename_noreplace(const char *from, const char *to)
{
	return (int)ret(
		renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE));
}

int sys_unlink(const char *path)
{
	return (int)ret(unlink(path));
}

int sys_ioctl(int fd, unsigned long request, void *arg)
{
	return (int)ret(ioctl(fd, request, arg));
}

ssize_t sys_getdents(int fd, void *buf, size_t len)
{
	return ret(syscall(SYS_getdents64, fd, buf, len));
}

int sys_getfl(int fd)
{
	return (int)ret(fcntl(fd, F_GETFL));
}

int sys_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	return (int)ret(poll(fds, n, timeout_ms));
}

int sys_eventfd(unsigned initial)
{
	return (int)ret(eventfd(initial, EFD_CLOEXEC | EFD_NONBLOCK));
}

int sys_userfaultfd(int flags)
{
	return (int)ret(syscall(SYS_userfaultfd, flags));
}

int sys_mmap(void **out, size_t len, int prot, int flags, int fd,
	     uint64_t offset)
{
	void *p = mmap(NULL, len, prot, flags, fd, (off_t)offset);

	if (p == MAP_FAILED)
		return -errno;
	*out = p;
	return 0;
}

int sys_munmap(void *addr, size_t len)
{
	return (int)ret(munmap(addr, len));
}

int sys_madvise(void *addr, size_t len, int advice)
{
	return (int)ret(madvise(addr, len, advice));
}

ssize_t sys_process_vm_readv(pid_t pid, const struct iovec *local, size_t n,
			     const struct iovec *remote, size_t m)
{
	return ret(process_vm_readv(pid, local, n, remote, m, 0));
}

ssize_t sys_process_vm_writev(pid_t pid, const struct iovec *local, size_t n,
			      const struct iovec *remote, size_t m)
{
	/* Not the C library's: the thread sanitizer looks into that one, and
	 * takes guest writes, which the kernel holds off, for races. */
	return ret(syscall(SYS_process_vm_writev, pid, local, n, remote, m, 0));
}

int sys_sched(unsigned policy, int nice, unsigned priority, uint64_t slice_ns)
{
	struct sched_attr a = {
		.size = sizeof(a),
		.sched_policy = policy,
		.sched_nice = nice,
		.sched_priority = priority,
		.sched_runtime = slice_ns,
	};

	return (int)ret(syscall(SYS_sched_setattr, 0, &a, 0));
}

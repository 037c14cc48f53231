/* SPDX-License-Identifier: MIT */
/*
 * One wrapper per system call: what the kernel gave, or -errno.  The rest of
 * the library never looks at errno, and tests replace these functions with
 * the linker's --wrap to make any of them fail.
 */
#ifndef SNAP_SYS_H
#define SNAP_SYS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>

int sys_open(const char *path, int flags, mode_t mode);
int sys_close(int fd);
ssize_t sys_read(int fd, void *buf, size_t len);
ssize_t sys_pread(int fd, void *buf, size_t len, uint64_t offset);
ssize_t sys_write(int fd, const void *buf, size_t len);
ssize_t sys_pwrite(int fd, const void *buf, size_t len, uint64_t offset);
/** write() that gives -EAGAIN instead of waiting, whatever the flags of the
 * open file; -EOPNOTSUPP where the file has no such mode. */
ssize_t sys_write_nowait(int fd, const void *buf, size_t len);
int64_t sys_lseek(int fd, int64_t offset, int whence);
int sys_fallocate(int fd, int mode, uint64_t offset, uint64_t len);
int sys_ftruncate(int fd, uint64_t len);
int sys_fsync(int fd);
int sys_fstat(int fd, struct stat *st);
int sys_stat(const char *path, struct stat *st);
int sys_fstatfs(int fd, struct statfs *st);
int sys_link(const char *from, const char *to);
int sys_rename(const char *from, const char *to);
/** Fails with -EEXIST when @to exists; -EINVAL where the file system has no
 * such rename. */
int sys_rename_noreplace(const char *from, const char *to);
int sys_unlink(const char *path);
int sys_ioctl(int fd, unsigned long request, void *arg);
/** Entries of an open directory, as struct dirent64; 0 at its end. */
ssize_t sys_getdents(int fd, void *buf, size_t len);
/** The flags of an open file. */
int sys_getfl(int fd);
int sys_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int sys_eventfd(unsigned initial);
int sys_userfaultfd(int flags);
int sys_mmap(void **out, size_t len, int prot, int flags, int fd,
	     uint64_t offset);
int sys_munmap(void *addr, size_t len);
int sys_madvise(void *addr, size_t len, int advice);
ssize_t sys_process_vm_writev(pid_t pid, const struct iovec *local, size_t n,
			      const struct iovec *remote, size_t m);
ssize_t sys_process_vm_readv(pid_t pid, const struct iovec *local, size_t n,
			     const struct iovec *remote, size_t m);

/* Of the calling thread: @policy with @nice, or @priority for a real-time one,
 * and @slice_ns, how long it may run before others have their turn (ordinary
 * policies, Linux 6.12; 0: the default; ignored before). */
int sys_sched(unsigned policy, int nice, unsigned priority, uint64_t slice_ns);

#endif

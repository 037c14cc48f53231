// SPDX-License-Identifier: MIT
/* The only file with userfaultfd ioctls; one function per ioctl. */
#include "uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "error.h"
#include "sys.h"

#define DEVICE "/dev/userfaultfd"

/* From /dev/userfaultfd (6.1; file permissions decide). */
static int open_device(int flags)
{
	int dev = sys_open(DEVICE, O_RDWR, 0), fd;

	if (dev < 0)
		return dev;
	fd = sys_ioctl(dev, USERFAULTFD_IOC_NEW, (void *)(uintptr_t)flags);
	sys_close(dev);
	return fd;
}

int uffd_features(uint64_t *features)
{
	struct uffdio_api api = {.api = UFFD_API};
	int fd, err;

	/* Allowed to everybody since 5.11, and before that to everybody with
	 * the sysctl, but then without the flag. */
	fd = sys_userfaultfd(O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (fd == -EINVAL)
		fd = sys_userfaultfd(O_CLOEXEC);
	if (fd < 0)
		fd = open_device(O_CLOEXEC);
	if (fd < 0)
		return fd;
	err = sys_ioctl(fd, UFFDIO_API, &api);
	sys_close(fd);
	if (!err)
		*features = api.features;
	return err;
}

/* Say which of the three ways is closed, and what would open each. */
static int no_permission(int device_err)
{
	const char *device = device_err == -ENOENT
				     ? "there is no " DEVICE
				       " (Linux 6.1, CONFIG_USERFAULTFD)"
				     : DEVICE " may not be opened";
	return error_set(-EPERM, SNAP_FAILURE_REFUSED,
			 "userfaultfd for kernel-mode faults is not permitted: "
			 "%s, sysctl vm.unprivileged_userfaultfd is 0, and "
			 "this process lacks CAP_SYS_PTRACE; any one of the "
			 "three is enough",
			 device);
}

int uffd_open(void)
{
	int device = open_device(O_CLOEXEC | O_NONBLOCK), fd;

	if (device >= 0)
		return device;
	fd = sys_userfaultfd(O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		return fd;
	if (fd == -EPERM)
		return no_permission(device);
	if (fd == -ENOSYS)
		return error_set(-EOPNOTSUPP, SNAP_FAILURE_REFUSED,
				 "this kernel has no userfaultfd "
				 "(CONFIG_USERFAULTFD, Linux 5.7)");
	return error_sys(fd, SNAP_FAILURE_INTERNAL, "userfaultfd");
}

int uffd_enable(int fd, uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};

	return sys_ioctl(fd, UFFDIO_API, &api);
}

int uffd_register(int fd, uint64_t start, uint64_t length)
{
	struct uffdio_register reg = {
		.range = {start, length},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int err = sys_ioctl(fd, UFFDIO_REGISTER, &reg);

	if (err)
		return err;
	if (reg.ioctls & (uint64_t)1 << _UFFDIO_WRITEPROTECT)
		return 0;
	uffd_unregister(fd, start, length);
	return -EOPNOTSUPP;
}

int uffd_unregister(int fd, uint64_t start, uint64_t length)
{
	struct uffdio_range range = {start, length};

	return sys_ioctl(fd, UFFDIO_UNREGISTER, &range);
}

int uffd_protect(int fd, uint64_t start, uint64_t length)
{
	struct uffdio_writeprotect wp = {
		.range = {start, length},
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};

	return sys_ioctl(fd, UFFDIO_WRITEPROTECT, &wp);
}

int uffd_unprotect(int fd, uint64_t start, uint64_t length)
{
	struct uffdio_writeprotect wp = {.range = {start, length}};

	return sys_ioctl(fd, UFFDIO_WRITEPROTECT, &wp);
}

int uffd_read(int fd, struct uffd_msg *msgs, unsigned n)
{
	ssize_t got = sys_read(fd, msgs, n * sizeof(*msgs));

	return got < 0 ? (int)got : (int)((size_t)got / sizeof(*msgs));
}

int uffd_open_fdinfo(int fd)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	return sys_open(path, O_RDONLY, 0);
}

int uffd_pending(int fdinfo, uint64_t *pending)
{
	char text[512];
	const char *at;
	ssize_t n = sys_pread(fdinfo, text, sizeof(text) - 1, 0);

	if (n < 0)
		return (int)n;
	text[n] = '\0';
	at = strstr(text, "pending:");
	if (!at)
		return -EIO;
	*pending = strtoull(at + strlen("pending:"), NULL, 10);
	return 0;
}

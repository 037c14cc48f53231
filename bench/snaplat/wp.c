// SPDX-License-Identifier: MIT
/* Write protection by userfaultfd, as bare as the reference modes need it. */
#include "wp.h"

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#define MESSAGES 16

int wp_open(void *addr, size_t len)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP |
			    UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};
	struct uffdio_register reg = {
		.range = {.start = (uintptr_t)addr, .len = len},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		die("userfaultfd: %s", strerror(errno));
	if (ioctl(fd, UFFDIO_API, &api) < 0)
		die("this kernel has no userfaultfd write-protect mode");
	if (ioctl(fd, UFFDIO_REGISTER, &reg) < 0)
		die("UFFDIO_REGISTER: %s", strerror(errno));
	return fd;
}

void wp_set(int fd, uintptr_t at, size_t len, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = {.start = at, .len = len},
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	while (ioctl(fd, UFFDIO_WRITEPROTECT, &wp) < 0)
		if (errno != EAGAIN)
			die("UFFDIO_WRITEPROTECT: %s", strerror(errno));
}

unsigned wp_faults(int fd, uint64_t *address, unsigned max)
{
	struct uffd_msg msg[MESSAGES];
	size_t room = max < MESSAGES ? max : MESSAGES;
	ssize_t n = read(fd, msg, room * sizeof(msg[0]));
	unsigned count = n > 0 ? (unsigned)((size_t)n / sizeof(msg[0])) : 0;

	for (unsigned i = 0; i < count; i++)
		address[i] = msg[i].arg.pagefault.address;
	return count;
}

void wp_close(int fd, void *addr, size_t len)
{
	struct uffdio_range all = {.start = (uintptr_t)addr, .len = len};

	if (ioctl(fd, UFFDIO_UNREGISTER, &all) < 0)
		die("UFFDIO_UNREGISTER: %s", strerror(errno));
	close(fd);
}

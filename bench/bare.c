// SPDX-License-Identifier: MIT
/*
 * The bare loop: the least that a copy before write can cost on this machine.
 *
 * One thread reads the fault messages, copies the page (the huge page of THP)
 * to a buffer, unprotects it, which wakes the writer, and does nothing else.
 */
#include "load.h"
#include "peers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#define MESSAGES 16

struct bare {
	const struct ram *ram;
	int fd;
	size_t step; /* bytes copied and unprotected at once */
	uint8_t *copy;
	uint8_t *done; /* one a step */
	pthread_t thread;
	atomic_bool ending;
};

static int open_uffd(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP |
			    UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};

	if (fd < 0)
		die("userfaultfd: %s", strerror(errno));
	if (ioctl(fd, UFFDIO_API, &api) < 0)
		die("this kernel has no userfaultfd write-protect mode");
	return fd;
}

static void protect(struct bare *b, uintptr_t at, size_t len, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = {.start = at, .len = len},
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	while (ioctl(b->fd, UFFDIO_WRITEPROTECT, &wp) < 0)
		if (errno != EAGAIN)
			die("UFFDIO_WRITEPROTECT: %s", strerror(errno));
}

static void serve(struct bare *b, uint64_t address)
{
	uintptr_t base = (uintptr_t)b->ram->addr;
	uintptr_t at = (uintptr_t)address & ~(b->step - 1);
	size_t index = (at - base) / b->step;

	if (!b->done[index])
		memcpy(b->copy + index % (64 * MIB / b->step) * b->step,
		       (void *)at, b->step);
	b->done[index] = 1;
	protect(b, at, b->step, false);
}

static void *bare_main(void *arg)
{
	struct bare *b = arg;
	struct uffd_msg msg[MESSAGES];
	struct pollfd p = {.fd = b->fd, .events = POLLIN};

	while (!atomic_load(&b->ending)) {
		ssize_t n;

		if (poll(&p, 1, 20) < 1)
			continue;
		n = read(b->fd, msg, sizeof(msg));
		for (ssize_t i = 0; i * (ssize_t)sizeof(msg[0]) < n; i++)
			serve(b, msg[i].arg.pagefault.address);
	}
	return NULL;
}

static void open_and_protect(struct bare *b)
{
	struct uffdio_register reg = {
		.range = {.start = (uintptr_t)b->ram->addr, .len = b->ram->len},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	b->fd = open_uffd();
	if (ioctl(b->fd, UFFDIO_REGISTER, &reg) < 0)
		die("UFFDIO_REGISTER: %s", strerror(errno));
	protect(b, (uintptr_t)b->ram->addr, b->ram->len, true);
}

static void bare_begin(struct bare *b)
{
	open_and_protect(b);
	if (pthread_create(&b->thread, NULL, bare_main, b))
		die("cannot start a thread");
}

void peer_bare(const struct ram *ram, enum load_kind load, double seconds,
	       struct samples *probe)
{
	struct bare b = {.ram = ram};
	struct load *l = load_start(load, ram, probe);
	struct timespec nap = {.tv_nsec = (long)(seconds * 1e9)};

	b.step = ram->kind == RAM_THP ? BLOCK : PAGE;
	b.copy = peer_buffer(64 * MIB);
	b.done = calloc(ram->len / b.step, 1);
	if (!b.done)
		die("out of memory");
	bare_begin(&b);
	load_go(l);
	nanosleep(&nap, NULL);
	/* Everything is opened before the handler goes. */
	protect(&b, (uintptr_t)ram->addr, ram->len, false);
	load_stop(l);
	atomic_store(&b.ending, true);
	pthread_join(b.thread, NULL);
	close(b.fd);
	peer_buffer_free(b.copy, 64 * MIB);
	free(b.done);
}

double peer_walks(const struct ram *ram)
{
	struct uffdio_range all = {.start = (uintptr_t)ram->addr,
				   .len = ram->len};
	struct bare b = {.ram = ram};
	double start = now_s();

	open_and_protect(&b);
	for (size_t at = 0; at < ram->len; at += BLOCK)
		protect(&b, (uintptr_t)ram->addr + at, BLOCK, false);
	if (ioctl(b.fd, UFFDIO_UNREGISTER, &all) < 0)
		die("UFFDIO_UNREGISTER: %s", strerror(errno));
	close(b.fd);
	return (double)(ram->len / MIB) / (now_s() - start);
}

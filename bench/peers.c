// SPDX-License-Identifier: MIT
/* What the engine is compared with, measured in the same run. */
#include "peers.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DIRECT_DEPTH 4u

uint8_t *peer_buffer(size_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("no memory for a buffer of %zu MiB", len / MIB);
	madvise(p, len, MADV_HUGEPAGE);
	memset(p, 1, len);
	return p;
}

void peer_buffer_free(uint8_t *p, size_t len)
{
	munmap(p, len);
}

double peer_memcpy(const struct ram *ram, uint8_t *to, size_t room)
{
	double start = now_s();

	for (size_t at = 0; at < ram->len; at += BLOCK)
		memcpy(to + at % room, ram->addr + at, BLOCK);
	return (double)(ram->len / MIB) / (now_s() - start);
}

/* ---- the plain writer ---- */

struct direct {
	struct io_uring ring;
	int fd;
	const struct ram *ram;
	uint8_t *buffers;
	size_t len, next;
	unsigned in_flight;
};

/* Through a buffer, as the RAM of a guest could not be written in place. */
static void direct_submit(struct direct *d, unsigned slot)
{
	size_t n = d->len - d->next < BLOCK ? d->len - d->next : BLOCK;
	uint8_t *buf = d->buffers + slot * BLOCK;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&d->ring);

	memcpy(buf, d->ram->addr + d->next % d->ram->len, n);
	io_uring_prep_write_fixed(sqe, d->fd, buf, (unsigned)n, d->next, 0);
	sqe->user_data = (uint64_t)slot << 32 | n;
	if (io_uring_submit(&d->ring) != 1)
		die("io_uring_submit failed");
	d->next += n;
	d->in_flight++;
}

static void direct_run(struct direct *d)
{
	for (unsigned i = 0; i < DIRECT_DEPTH && d->next < d->len; i++)
		direct_submit(d, i);
	while (d->in_flight) {
		struct io_uring_cqe *cqe;
		uint64_t tag;

		if (io_uring_wait_cqe(&d->ring, &cqe))
			die("io_uring_wait_cqe failed");
		tag = cqe->user_data;
		if (cqe->res != (int)(tag & UINT32_MAX))
			die("the plain writer wrote %d", cqe->res);
		io_uring_cqe_seen(&d->ring, cqe);
		d->in_flight--;
		if (d->next < d->len)
			direct_submit(d, (unsigned)(tag >> 32));
	}
	if (fsync(d->fd) < 0)
		die("fsync: %s", strerror(errno));
}

double peer_direct(const char *dir, const struct ram *ram, size_t len)
{
	struct direct d = {.ram = ram, .len = len & ~(PAGE - 1)};
	struct iovec iov;
	char path[512];
	double start, seconds;
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;

	snprintf(path, sizeof(path), "%s/engine-plain.tmp", dir);
	unlink(path);
	d.fd = open(path, flags | O_DIRECT, 0600);
	if (d.fd < 0) /* no O_DIRECT here: neither has the engine */
		d.fd = open(path, flags, 0600);
	if (d.fd < 0 || posix_fallocate(d.fd, 0, (off_t)d.len))
		die("cannot make %s", path);
	d.buffers = peer_buffer(DIRECT_DEPTH * BLOCK);
	iov = (struct iovec){d.buffers, DIRECT_DEPTH * BLOCK};
	if (io_uring_queue_init(DIRECT_DEPTH, &d.ring, 0) ||
	    io_uring_register_buffers(&d.ring, &iov, 1))
		die("the plain writer needs io_uring");
	start = now_s();
	direct_run(&d);
	seconds = now_s() - start;
	io_uring_queue_exit(&d.ring);
	peer_buffer_free(d.buffers, DIRECT_DEPTH * BLOCK);
	close(d.fd);
	unlink(path);
	return (double)d.len / (double)MIB / seconds;
}

/* ---- zstd ---- */

static int file_in_memory(const struct ram *ram, char *path)
{
	int fd = mkostemp(path, O_CLOEXEC);

	if (fd < 0)
		return -1;
	for (size_t at = 0; at < ram->len;) {
		ssize_t n = write(fd, ram->addr + at, ram->len - at);

		if (n <= 0) {
			close(fd);
			return -1;
		}
		at += (size_t)n;
	}
	close(fd);
	return 0;
}

double peer_zstd(const struct ram *ram)
{
	char path[] = "/dev/shm/engine-XXXXXX";
	char *argv[] = {"zstd", "-1", "-T2",	   "-q", "-f",
			path,	"-o", "/dev/null", NULL};
	double start, seconds;
	int status = -1;
	pid_t pid;

	if (file_in_memory(ram, path)) {
		unlink(path);
		return 0;
	}
	start = now_s();
	if (posix_spawnp(&pid, "zstd", NULL, NULL, argv, environ) == 0)
		waitpid(pid, &status, 0);
	seconds = now_s() - start;
	unlink(path);
	return status == 0 ? (double)(ram->len / MIB) / seconds : 0;
}

// SPDX-License-Identifier: MIT
/*
 * The writer's backend for regular files by io_uring; the only file here that
 * includes liburing.
 *
 * How it works.  Up to DEPTH frames are in flight, written from the pool's
 * memory, which is registered once.  The ring is made and used by the writer's
 * thread alone: a request belongs to the thread that submitted it and would be
 * cancelled when that thread ends.  The thread sleeps in io_uring_enter() and
 * nowhere else; other threads wake it through the writer's eventfd, which a
 * multishot poll request watches, so it is never read: each write to it is a
 * completion.  Requests are submitted by the call that sleeps, so that a busy
 * writer makes less than one system call a frame.
 *
 * When io_uring_enter() itself fails the ring is given up: every frame comes
 * back with the error, and sleeping goes on in poll().  The kernel may then
 * still read buffers that were given back, into a file that will be removed.
 */
#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "error.h"
#include "sys.h"
#include "writer_backend.h"

#define DEPTH 8u
#define RING_ENTRIES 16u /* all frames and the poll request always fit */
/* With all in flight it is enough to hear of every second completion. */
#define BATCH 2u
#define REFUSED_MAX 64u

struct slot {
	struct buf *buf; /* NULL: free */
	struct write_progress progress;
};

struct uring_backend {
	struct backend base;
	struct io_uring ring;
	struct slot slots[DEPTH];
	unsigned in_flight;
	bool registered;  /* the pool's memory is buffer 0 */
	bool watching;	  /* the poll request is armed */
	int broken;	  /* what io_uring_enter() failed with */
	unsigned refused; /* calls in a row that the kernel had no room for */
	void *bounce;
};

static void queue_write(struct uring_backend *u, struct slot *s)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	const uint8_t *from = s->buf->frame + s->progress.done;
	unsigned len = (unsigned)(s->buf->frame_len - s->progress.done);
	uint64_t offset = s->buf->entry.offset + s->progress.done;

	assert(sqe);
	if (u->registered)
		io_uring_prep_write_fixed(sqe, u->base.fd, from, len, offset,
					  0);
	else
		io_uring_prep_write(sqe, u->base.fd, from, len, offset);
	io_uring_sqe_set_data(sqe, s);
	count_write(&u->base);
}

static void queue_watch(struct uring_backend *u)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);

	assert(sqe);
	io_uring_prep_poll_multishot(sqe, u->base.event_fd, POLLIN);
	io_uring_sqe_set_data(sqe, NULL);
	u->watching = true;
}

static void give_back(struct uring_backend *u, struct slot *s, int err)
{
	struct buf *b = s->buf;

	s->buf = NULL;
	u->in_flight--;
	u->base.done(u->base.user_data, b, err);
}

static void complete(struct uring_backend *u, struct slot *s, int res)
{
	int err = backend_progress(&u->base, &s->progress, res);

	if (err || s->progress.done >= s->buf->frame_len)
		give_back(u, s, err);
	else
		queue_write(u, s);
}

static void reap(struct uring_backend *u)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&u->ring, &cqe)) {
		struct slot *s = io_uring_cqe_get_data(cqe);
		unsigned flags = cqe->flags;
		int res = cqe->res;

		io_uring_cqe_seen(&u->ring, cqe);
		if (s)
			complete(u, s, res);
		else if (!(flags & IORING_CQE_F_MORE))
			u->watching = false;
	}
}

static void give_up(struct uring_backend *u, int err)
{
	u->broken = err;
	for (unsigned i = 0; i < DEPTH; i++)
		if (u->slots[i].buf)
			give_back(u, &u->slots[i], err);
}

/* Submit what is queued, wait for @n completions and handle all there are. */
static void submit_and_reap(struct uring_backend *u, unsigned n)
{
	int err;

	count_syscall(&u->base);
	err = io_uring_submit_and_wait(&u->ring, n);
	if (err == -EAGAIN || err == -EBUSY)
		u->refused++;
	else
		u->refused = 0;
	if (u->refused > REFUSED_MAX ||
	    (err < 0 && !u->refused && err != -EINTR))
		give_up(u, err);
	else
		reap(u);
}

static void uring_frame(struct backend *k, struct buf *b)
{
	struct uring_backend *u = (struct uring_backend *)k;
	struct slot *s = u->slots;

	while (u->in_flight == DEPTH)
		submit_and_reap(u, BATCH);
	if (u->broken) {
		k->done(k->user_data, b, u->broken);
		return;
	}
	while (s->buf)
		s++;
	*s = (struct slot){.buf = b};
	u->in_flight++;
	queue_write(u, s);
}

static void uring_drain(struct backend *k)
{
	struct uring_backend *u = (struct uring_backend *)k;

	while (u->in_flight)
		submit_and_reap(u, u->in_flight);
}

static void uring_sleep(struct backend *k)
{
	struct uring_backend *u = (struct uring_backend *)k;
	struct pollfd pfd = {.fd = k->event_fd, .events = POLLIN};
	uint64_t v;

	if (!u->broken && !u->watching)
		queue_watch(u);
	if (!u->broken) {
		submit_and_reap(u, 1);
		return;
	}
	sys_poll(&pfd, 1, -1);
	(void)!sys_read(pfd.fd, &v, sizeof(v));
}

static int uring_plain(struct backend *k, const void *data, size_t len,
		       uint64_t offset)
{
	struct uring_backend *u = (struct uring_backend *)k;

	return backend_pwrite_plain(k, u->bounce, data, len, offset);
}

static void uring_destroy(struct backend *k)
{
	struct uring_backend *u = (struct uring_backend *)k;

	uring_drain(k);
	io_uring_queue_exit(&u->ring);
	free(u->bounce);
	free(u);
}

/* Wake ourselves once: proves that this kernel has multishot poll (5.13), and
 * with it everything else that is used here. */
static int try_waking(struct uring_backend *u)
{
	static const uint64_t one = 1;
	struct io_uring_cqe *cqe;
	int err;

	queue_watch(u);
	if (sys_write(u->base.event_fd, &one, sizeof(one)) < 0)
		return -EOPNOTSUPP;
	do {
		count_syscall(&u->base);
		err = io_uring_submit_and_wait(&u->ring, 1);
	} while (err == -EINTR);
	if (err < 0)
		return err;
	if (io_uring_peek_cqe(&u->ring, &cqe) || cqe->res < 0 ||
	    !(cqe->flags & IORING_CQE_F_MORE))
		return -EOPNOTSUPP;
	io_uring_cqe_seen(&u->ring, cqe);
	return 0;
}

static void register_pool(struct uring_backend *u)
{
	struct iovec memory;

	bufpool_memory(u->base.pool, &memory.iov_base, &memory.iov_len);
	/* RLIMIT_MEMLOCK may forbid it; writes then pin pages as they go. */
	u->registered = !io_uring_register_buffers(&u->ring, &memory, 1);
}

int backend_uring(struct backend **out, const struct backend *base)
{
	static const struct backend_ops ops = {
		.frame = uring_frame,
		.plain = uring_plain,
		.drain = uring_drain,
		.sleep = uring_sleep,
		.destroy = uring_destroy,
	};
	struct uring_backend *u = calloc(1, sizeof(*u));
	int err;

	if (!u)
		return error_nomem("the writer");
	u->base = *base;
	u->base.ops = &ops;
	if (posix_memalign(&u->bounce, PAGE_BYTES, WRITER_BOUNCE)) {
		err = error_nomem("the writer");
		goto free_backend;
	}
	err = io_uring_queue_init(RING_ENTRIES, &u->ring, 0);
	if (err) {
		error_sys(err, SNAP_FAILURE_INTERNAL, "cannot set up io_uring");
		goto free_bounce;
	}
	io_uring_ring_dontfork(&u->ring);
	register_pool(u);
	err = try_waking(u);
	if (err) {
		error_sys(err, SNAP_FAILURE_INTERNAL, "cannot use io_uring");
		goto exit_ring;
	}
	*out = &u->base;
	return 0;

exit_ring:
	io_uring_queue_exit(&u->ring);
free_bounce:
	free(u->bounce);
free_backend:
	free(u);
	return err;
}

bool uring_works(void)
{
	struct io_uring ring;

	if (io_uring_queue_init(2, &ring, 0))
		return false;
	io_uring_queue_exit(&ring);
	return true;
}

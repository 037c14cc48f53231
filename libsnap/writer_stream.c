// SPDX-License-Identifier: MIT
/*
 * The writer's backend for a pipe, socket or borrowed file, front to back.
 *
 * How it works.  The descriptor is somebody else's and may be in blocking mode,
 * which must not be changed; yet a reader that sleeps must not hold up a
 * cancel.  So each write asks not to wait (RWF_NOWAIT), and the waiting is done
 * in poll() together with the writer's eventfd.  Where RWF_NOWAIT does not
 * exist, 4096 bytes are written once poll() has seen room: a pipe that polls
 * writable takes PIPE_BUF bytes without waiting (pipe(7)).  Regular files have
 * no readers and are written plainly.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#include "error.h"
#include "sys.h"
#include "writer_backend.h"

enum stream_mode {
	STREAM_NOWAIT,
	STREAM_SMALL_PIECES,
	STREAM_PLAIN,
};

struct stream_backend {
	struct backend base;
	enum stream_mode mode;
};

/* Some descriptors poll writable and still have no room for a piece. */
#define RETRY_MS 1

/* Wait until poll() sees room, a reader has gone away (the next write tells) or
 * the writer is cancelled.  @room: poll() saw room and there was none. */
static int wait_for_room(struct stream_backend *s, bool *room)
{
	struct backend *k = &s->base;
	struct pollfd fds[2] = {
		{.fd = k->event_fd, .events = POLLIN},
		{.fd = k->fd, .events = POLLOUT},
	};
	int n;

	count_syscall(k);
	n = *room ? sys_poll(fds, 1, RETRY_MS) : sys_poll(fds, 2, -1);
	if (n == -EINTR)
		return 0;
	*room = !*room;
	return n < 0 ? n : 0;
}

static ssize_t write_some(struct stream_backend *s, const void *data,
			  size_t len)
{
	struct backend *k = &s->base;
	ssize_t n;

	count_syscall(k);
	count_write(k);
	if (s->mode == STREAM_PLAIN)
		return sys_write(k->fd, data, len);
	if (s->mode == STREAM_SMALL_PIECES)
		return sys_write(k->fd, data, min_u64(len, PIPE_BUF));
	n = sys_write_nowait(k->fd, data, len);
	if (n != -EOPNOTSUPP)
		return n;
	s->mode = STREAM_SMALL_PIECES;
	return -EAGAIN;
}

static int stream_write(struct stream_backend *s, const void *data, size_t len)
{
	const char *p = data;
	bool room = false;
	ssize_t n;
	int err = 0;

	while (len && !err) {
		if (atomic_load(s->base.cancelled))
			return -ECANCELED;
		n = -EAGAIN;
		if (room || s->mode != STREAM_SMALL_PIECES)
			n = write_some(s, p, len);
		if (n > 0) {
			p += n;
			len -= (size_t)n;
			room = false;
		} else if (n == 0 || n == -EAGAIN) {
			err = wait_for_room(s, &room);
		} else if (n != -EINTR) {
			err = (int)n;
		}
	}
	return err;
}

static void stream_frame(struct backend *k, struct buf *b)
{
	struct stream_backend *s = (struct stream_backend *)k;

	k->done(k->user_data, b, stream_write(s, b->frame, b->frame_len));
}

static int stream_plain(struct backend *k, const void *data, size_t len,
			uint64_t offset)
{
	return stream_write((struct stream_backend *)k, data, len);
}

static void stream_destroy(struct backend *k)
{
	free(k);
}

int backend_stream(struct backend **out, const struct backend *base)
{
	static const struct backend_ops ops = {
		.frame = stream_frame,
		.plain = stream_plain,
		.destroy = stream_destroy,
	};
	struct stream_backend *s;
	struct stat st;
	int err = sys_fstat(base->fd, &st);

	if (err)
		return error_sys(err, SNAP_FAILURE_OUTPUT,
				 "cannot use descriptor %d for the output",
				 base->fd);
	s = malloc(sizeof(*s));
	if (!s)
		return error_nomem("the writer");
	s->base = *base;
	s->base.ops = &ops;
	s->mode = S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) ? STREAM_PLAIN
							     : STREAM_NOWAIT;
	*out = &s->base;
	return 0;
}

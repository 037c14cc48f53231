// SPDX-License-Identifier: MIT
/* The writer's simple backends: pwrite() to a regular file, and nowhere. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "sys.h"
#include "writer_backend.h"

/* Writes that say "again" or write nothing, before it is taken for an error. */
#define STUCK_MAX 64

struct pwrite_backend {
	struct backend base;
	void *bounce;
};

int backend_progress(const struct backend *k, struct write_progress *p,
		     int64_t n)
{
	size_t before = p->done;

	if (n < 0 && n != -EINTR && n != -EAGAIN)
		return (int)n;
	if (n > 0)
		p->done += (size_t)n;
	if (k->direct)
		p->done = align_down(p->done, PAGE_BYTES);
	p->stuck = p->done > before ? 0 : p->stuck + 1;
	return p->stuck > STUCK_MAX ? -EIO : 0;
}

static int pwrite_all(struct backend *k, const void *data, size_t len,
		      uint64_t offset)
{
	struct write_progress p = {0};
	int err = 0;

	while (!err && p.done < len) {
		count_syscall(k);
		count_write(k);
		err = backend_progress(
			k, &p,
			sys_pwrite(k->fd, (const char *)data + p.done,
				   len - p.done, offset + p.done));
	}
	return err;
}

int backend_pwrite_plain(struct backend *k, void *bounce, const void *data,
			 size_t len, uint64_t offset)
{
	size_t done = 0, n;
	int err = 0;

	if (!k->direct)
		return pwrite_all(k, data, len, offset);
	assert(is_aligned(len, PAGE_BYTES) && is_aligned(offset, PAGE_BYTES));
	while (!err && done < len) {
		if (atomic_load(k->cancelled))
			return -ECANCELED;
		n = min_u64(len - done, WRITER_BOUNCE);
		memcpy(bounce, (const char *)data + done, n);
		err = pwrite_all(k, bounce, n, offset + done);
		done += n;
	}
	return err;
}

static void pwrite_frame(struct backend *k, struct buf *b)
{
	k->done(k->user_data, b,
		pwrite_all(k, b->frame, b->frame_len, b->entry.offset));
}

static int pwrite_plain(struct backend *k, const void *data, size_t len,
			uint64_t offset)
{
	struct pwrite_backend *p = (struct pwrite_backend *)k;

	return backend_pwrite_plain(k, p->bounce, data, len, offset);
}

static void pwrite_destroy(struct backend *k)
{
	struct pwrite_backend *p = (struct pwrite_backend *)k;

	free(p->bounce);
	free(p);
}

int backend_pwrite(struct backend **out, const struct backend *base)
{
	static const struct backend_ops ops = {
		.frame = pwrite_frame,
		.plain = pwrite_plain,
		.destroy = pwrite_destroy,
	};
	struct pwrite_backend *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem("the writer");
	p->base = *base;
	p->base.ops = &ops;
	if (posix_memalign(&p->bounce, PAGE_BYTES, WRITER_BOUNCE)) {
		free(p);
		return error_nomem("the writer");
	}
	*out = &p->base;
	return 0;
}

static void null_frame(struct backend *k, struct buf *b)
{
	k->done(k->user_data, b, 0);
}

static int null_plain(struct backend *k, const void *data, size_t len,
		      uint64_t offset)
{
	return 0;
}

static void null_destroy(struct backend *k)
{
	free(k);
}

int backend_null(struct backend **out, const struct backend *base)
{
	static const struct backend_ops ops = {
		.frame = null_frame,
		.plain = null_plain,
		.destroy = null_destroy,
	};
	struct backend *k = malloc(sizeof(*k));

	if (!k)
		return error_nomem("the writer");
	*k = *base;
	k->ops = &ops;
	*out = k;
	return 0;
}

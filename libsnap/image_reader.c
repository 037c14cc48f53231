// SPDX-License-Identifier: MIT
/* Bytes of an image, from a file or a stream, and how to complain of them. */
#include "image_reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "sys.h"
#include "util/util.h"

#define STREAM_STEP ((uint64_t)MIB)

int image_damaged(const char *path, uint64_t at, const char *fmt, ...)
{
	char why[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return error_set(-EBADMSG, SNAP_FAILURE_IMAGE,
			 "%s: damaged at byte %" PRIu64 ": %s", path, at, why);
}

int image_incomplete(const char *path, uint64_t at, const char *why)
{
	return image_damaged(path, at, "incomplete: %s", why);
}

static int ends_early(const char *path, uint64_t at)
{
	return image_incomplete(path, at,
				"it ends here, in the middle of a part");
}

static int cannot_read(int err, const char *path, uint64_t at)
{
	return error_sys(err, SNAP_FAILURE_INTERNAL,
			 "%s: cannot read at byte %" PRIu64, path, at);
}

int image_pread(int fd, const char *path, void *buf, size_t len,
		uint64_t offset)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = sys_pread(fd, (uint8_t *)buf + done, len - done,
			      offset + done);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return cannot_read((int)n, path, offset + done);
		if (n == 0)
			return ends_early(path, offset + done);
		done += (size_t)n;
	}
	return 0;
}

static int get_stream(struct image_reader *r, void *buf, size_t len)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = sys_read(r->fd, (uint8_t *)buf + done, len - done);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return cannot_read((int)n, r->path, r->at);
		if (n == 0)
			return ends_early(r->path, r->at);
		done += (size_t)n;
		r->at += (uint64_t)n;
	}
	return 0;
}

int image_reader_get(struct image_reader *r, void *buf, size_t len)
{
	int err;

	if (r->stream)
		return get_stream(r, buf, len);
	if (r->at > r->size || len > r->size - r->at)
		return ends_early(r->path, r->size);
	err = image_pread(r->fd, r->path, buf, len, r->at);
	if (!err)
		r->at += len;
	return err;
}

/* How much more of @len, of which @have are there, memory may be taken for. */
static uint64_t next_step(const struct image_reader *r, uint64_t have,
			  uint64_t len)
{
	if (!r->stream)
		return len - have;
	return min_u64(len - have, max_u64(have, STREAM_STEP));
}

int image_reader_get_new(struct image_reader *r, uint64_t len, void **out)
{
	uint8_t *mem = NULL, *grown;
	uint64_t have = 0, step;
	int err;

	if (!r->stream && (r->at > r->size || len > r->size - r->at))
		return ends_early(r->path, r->size);
	do {
		step = next_step(r, have, len);
		/* One more, as no bytes are no failure. */
		grown = realloc(mem, have + step + 1);
		if (!grown) {
			free(mem);
			return error_nomem("a part of the image");
		}
		mem = grown;
		err = image_reader_get(r, mem + have, step);
		if (err) {
			free(mem);
			return err;
		}
		have += step;
	} while (have < len);
	*out = mem;
	return 0;
}

int image_reader_end(struct image_reader *r)
{
	char more;
	ssize_t n;

	if (!r->stream) {
		if (r->at == r->size)
			return 0;
		return image_damaged(r->path, r->at,
				     "there are bytes behind the footer");
	}
	do
		n = sys_read(r->fd, &more, 1);
	while (n == -EINTR);
	if (n < 0)
		return cannot_read((int)n, r->path, r->at);
	if (n > 0)
		return image_damaged(r->path, r->at,
				     "there are bytes behind the footer");
	return 0;
}

bool image_is_zero(const void *p, size_t len)
{
	const uint8_t *b = p;

	return !len || (!b[0] && !memcmp(b, b + 1, len - 1));
}

// SPDX-License-Identifier: MIT
/*
 * Reads an open image's pages.
 *
 * How it works.  The extents of the wanted pages are sorted by frame, so that
 * one call decodes each frame once, however its pages are scattered: those
 * that the guest wrote to are in frames in the order of its writes.  The last
 * decoded frame is kept for the next call.  One lock is held over a call; to
 * load in parallel there is snap_restore().
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "image.h"
#include "util/util.h"

/* The bytes wanted of one region. */
struct request {
	uint64_t start, end; /* in the region */
	uint8_t *buf;	     /* byte @start goes to the first */
};

static int load_cached(struct snap_image *img, uint32_t frame)
{
	int err;

	if (img->cached == (uint64_t)frame + 1)
		return 0;
	if (!img->decoder.raw) {
		err = frame_decoder_init(&img->decoder);
		if (err)
			return err;
	}
	img->cached = 0;
	err = frame_load(&img->decoder, &img->frames[frame], img->fd, img->path,
			 img->decoder.raw);
	if (!err)
		img->cached = (uint64_t)frame + 1;
	return err;
}

static int copy_extent(struct snap_image *img, const struct image_extent *e,
		       const struct request *q)
{
	uint64_t first = e->first_page << PAGE_SHIFT;
	uint64_t from = max_u64(first, q->start);
	uint64_t to =
		min_u64(first + ((uint64_t)e->count << PAGE_SHIFT), q->end);
	uint64_t payload = (uint64_t)e->payload_page << PAGE_SHIFT;
	int err;

	if (e->kind != FRAME_DATA) {
		memset(q->buf + (from - q->start), 0, to - from);
		return 0;
	}
	err = load_cached(img, e->frame);
	if (err)
		return err;
	memcpy(q->buf + (from - q->start),
	       img->decoder.raw + payload + (from - first), to - from);
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int snap_image_read(struct snap_image *img, uint32_t index, uint64_t offset,
		    void *buf, size_t length)
{
	struct request q = {offset, offset + length, buf};
	uint32_t low, high, i, *numbers;
	const struct format_region *r;
	int err = image_check_region(img, index);

	if (err)
		return err;
	r = &img->head.regions[index];
	if (offset > r->length || length > r->length - offset)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "region %s of %s ends before the last byte to "
				 "read",
				 r->name, img->path);
	if (!length)
		return 0;
	low = image_extents_find(&img->extents, index, q.start >> PAGE_SHIFT);
	high = image_extents_find(&img->extents, index,
				  (q.end - 1) >> PAGE_SHIFT);
	numbers = malloc(((size_t)high - low + 1) * sizeof(*numbers));
	if (!numbers)
		return error_nomem("reading the image");
	memcpy(numbers, img->extents.order + low,
	       ((size_t)high - low + 1) * sizeof(*numbers));
	/* Extents are numbered in the order of the file. */
	qsort(numbers, (size_t)high - low + 1, sizeof(*numbers), by_number);
	pthread_mutex_lock(&img->lock);
	for (i = 0; !err && i <= high - low; i++)
		err = copy_extent(img, &img->extents.items[numbers[i]], &q);
	pthread_mutex_unlock(&img->lock);
	free(numbers);
	return err;
}

int snap_image_page_kind(const struct snap_image *img, uint32_t index,
			 uint64_t page, enum snap_page_kind *kind,
			 uint64_t *count)
{
	const struct image_extents *x = &img->extents;
	const struct image_extent *e;
	uint64_t next;
	uint32_t at;
	int err = image_check_region(img, index);

	if (err)
		return err;
	if (page >= img->head.regions[index].length >> PAGE_SHIFT)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "region %s of %s ends before that page",
				 img->head.regions[index].name, img->path);
	at = image_extents_find(x, index, page);
	e = &x->items[x->order[at]];
	*kind = (enum snap_page_kind)e->kind;
	next = e->first_page + e->count;
	while (++at < x->first[index + 1] &&
	       x->items[x->order[at]].kind == e->kind)
		next += x->items[x->order[at]].count;
	*count = next - page;
	return 0;
}

_Static_assert((int)SNAP_PAGE_ABSENT == (int)FRAME_ABSENT &&
		       (int)SNAP_PAGE_ZERO == (int)FRAME_ZERO &&
		       (int)SNAP_PAGE_DATA == (int)FRAME_DATA,
	       "kinds are the same in the interface and in the file");

// SPDX-License-Identifier: MIT
/*
 * Loads a region of an image into memory, in parallel.
 *
 * How it works.  The memory is emptied first, so that absent and zero pages
 * need no more work.  Then each thread takes the next frame that has pages of
 * the region, until none is left or one has failed; the caller's thread is one
 * of them.  Frames never share a page, which snap_image_open() has checked, so
 * threads never write to the same place.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "image.h"
#include "restore_dest.h"
#include "thread.h"
#include "util/util.h"

#define WORKERS_DEFAULT_MAX 8u
#define WORKERS_MAX 64u

struct restore {
	const struct snap_image *img;
	uint32_t region;
	uint8_t *dest;
	atomic_uint_least64_t next; /* frame that nobody has taken */
	atomic_bool failed;

	pthread_mutex_t lock; /* of the first failure: */
	int err;
	enum snap_failure failure;
	char text[ERROR_TEXT_MAX];
};

/* Remember the failure that is this thread's last, unless there was one. */
static void fail_restore(struct restore *r, int err)
{
	pthread_mutex_lock(&r->lock);
	if (!r->err) {
		r->err = err;
		r->failure = error_failure();
		snprintf(r->text, sizeof(r->text), "%s", error_text());
	}
	pthread_mutex_unlock(&r->lock);
	atomic_store(&r->failed, true);
}

/* The last extent of the frame with data of the wanted region, or NULL. */
static const struct image_extent *wanted_extent(const struct restore *r,
						const struct image_frame *f)
{
	const struct image_extent *e, *found = NULL;
	uint32_t i;

	for (i = 0; i < f->extent_count; i++) {
		e = &r->img->extents.items[f->first_extent + i];
		if (e->kind == FRAME_DATA && e->region == r->region)
			found = e;
	}
	return found;
}

static uint8_t *dest_of(const struct restore *r, const struct image_extent *e)
{
	return r->dest + (e->first_page << PAGE_SHIFT);
}

static int load_frame(struct restore *r, struct frame_decoder *d,
		      const struct image_frame *f)
{
	const struct snap_image *img = r->img;
	const struct image_extent *e = wanted_extent(r, f);
	uint32_t i;
	int err;

	if (!e)
		return 0;
	/* When its data are one run they need no place in between. */
	if ((uint64_t)e->count << PAGE_SHIFT == f->raw_len)
		return frame_load(d, f, img->fd, img->path, dest_of(r, e));
	err = frame_load(d, f, img->fd, img->path, d->raw);
	for (i = 0; !err && i < f->extent_count; i++) {
		e = &img->extents.items[f->first_extent + i];
		if (e->kind == FRAME_DATA && e->region == r->region)
			memcpy(dest_of(r, e),
			       d->raw + ((size_t)e->payload_page << PAGE_SHIFT),
			       (size_t)e->count << PAGE_SHIFT);
	}
	return err;
}

static void *worker_main(void *arg)
{
	struct restore *r = arg;
	struct frame_decoder decoder;
	uint64_t frame;
	int err = frame_decoder_init(&decoder);

	if (err) {
		fail_restore(r, err);
		return NULL;
	}
	while (!err &&
	       !atomic_load_explicit(&r->failed, memory_order_relaxed)) {
		frame = atomic_fetch_add_explicit(&r->next, 1,
						  memory_order_relaxed);
		if (frame >= r->img->frame_count)
			break;
		err = load_frame(r, &decoder, &r->img->frames[frame]);
	}
	if (err)
		fail_restore(r, err);
	frame_decoder_free(&decoder);
	return NULL;
}

static void run(struct restore *r, unsigned workers)
{
	pthread_t threads[WORKERS_MAX];
	unsigned started = 0;
	char name[16];

	/* Without threads it is slower, and nothing worse. */
	while (started + 1 < workers) {
		snprintf(name, sizeof(name), "snap-load-%u", started % 100);
		if (thread_start(&threads[started], name, worker_main, r))
			break;
		started++;
	}
	worker_main(r);
	while (started)
		pthread_join(threads[--started], NULL);
}

static unsigned choose_workers(const struct snap_image *img, unsigned workers)
{
	if (!workers)
		workers = (unsigned)min_u64(thread_cpus(), WORKERS_DEFAULT_MAX);
	return (unsigned)min_u64(min_u64(workers, WORKERS_MAX),
				 max_u64(img->frame_count, 1));
}

int snap_restore(struct snap_image *img, uint32_t index, void *dest,
		 size_t length, unsigned workers)
{
	struct restore r = {.img = img, .region = index, .dest = dest};
	int err = image_check_region(img, index);

	if (err)
		return err;
	if (length != img->head.regions[index].length)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "region %s of %s has %" PRIu64
				 " bytes, the memory to restore into %zu",
				 img->head.regions[index].name, img->path,
				 img->head.regions[index].length, length);
	if (!is_aligned((uintptr_t)dest, PAGE_BYTES))
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "the memory to restore into, %p, does not "
				 "begin with a page",
				 dest);
	err = restore_dest_clear(dest, length);
	if (err)
		return err;
	pthread_mutex_init(&r.lock, NULL);
	run(&r, choose_workers(img, workers));
	pthread_mutex_destroy(&r.lock);
	return r.err ? error_set(r.err, r.failure, "%s", r.text) : 0;
}

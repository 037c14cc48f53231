// SPDX-License-Identifier: MIT
/* Write-protecting RAM: all that is not protected yet, inside the pause. */
#include "arm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>

#include "thread.h"
#include "uffd.h"

/* A multiple of every huge page but the 1 GiB one, for which it is stretched. */
#define CHUNK (64 * MIB)

/* A first chunk that took longer makes help worth its start. */
#define WORTH_HELP_NS 200000u

#define THREADS_MAX 8u

/* To protect this many pages more costs less than another call. */
#define GAP_PAGES 14u

/* What is left to do; shared by the threads that arm. */
struct arm {
	struct guest *g;
	pthread_mutex_t lock;
	size_t region;
	uint64_t at; /* offset in it */
	int err;     /* the first */
	struct region *failed;
};

/* UFFDIO_WRITEPROTECT; where a kernel before 6.4 does not cross VMAs it says
 * ENOENT, and halves of the range are tried. */
static int arm_range(struct guest *g, const struct region *r, uint64_t start,
		     uint64_t length)
{
	uint64_t half = align_up(length / 2, r->page_size);
	int err;

	stats_add(&g->stats.protect_ioctls, 1);
	do {
		err = uffd_protect(g->uffd, start, length);
	} while (err == -EAGAIN && guest_capturing(g));
	if (err != -ENOENT || length <= r->page_size)
		return err;
	err = arm_range(g, r, start, half);
	return err ? err : arm_range(g, r, start + half, length - half);
}

struct page_run arm_next_run(const struct region *r, uint64_t from,
			     uint64_t end)
{
	uint64_t first = pagestate_find(&r->ps, from, end, PAGE_OPEN);
	uint64_t stop, limit, next = first;

	do {
		stop = next + pagestate_run(&r->ps, next, end, PAGE_OPEN);
		limit = min_u64(end, stop + GAP_PAGES + 1);
		next = pagestate_find(&r->ps, stop, limit, PAGE_OPEN);
	} while (next < limit);
	return (struct page_run){first, stop - first};
}

int arm_run(struct guest *g, struct region *r, struct page_run run)
{
	uint64_t at = run.first, end = run.first + run.count;
	struct page_run part;
	int err;

	for (;;) {
		part = arm_next_run(r, at, end);
		if (!part.count)
			return 0;
		err = arm_range(g, r, region_addr(r, part.first),
				part.count * PAGE_BYTES);
		if (err)
			return err;
		pagestate_arm(&r->ps, part.first, part.count);
		if (guest_capturing(g))
			stats_add(&g->stats.pages_armed_in_pause, part.count);
		at = part.first + part.count;
	}
}

/* The next chunk: its region, or NULL when all are taken or one failed. */
static struct region *next_chunk(struct arm *a, struct page_run *run)
{
	const struct region_table *t = &a->g->regions;
	struct region *r = NULL;
	uint64_t at, end;

	pthread_mutex_lock(&a->lock);
	while (a->region < t->count && !t->by_index[a->region]->registered)
		a->region++;
	if (!a->err && a->region < t->count) {
		r = t->by_index[a->region];
		at = r->start + a->at;
		end = align_up(at + 1, max_u64(CHUNK, r->page_size));
		end = min_u64(end, region_end(r));
		run->first = a->at >> PAGE_SHIFT;
		run->count = (end - at) >> PAGE_SHIFT;
		a->at += end - at;
		if (end == region_end(r)) {
			a->region++;
			a->at = 0;
		}
	}
	pthread_mutex_unlock(&a->lock);
	return r;
}

/* False when there was nothing left. */
static bool arm_next(struct arm *a)
{
	struct page_run run;
	struct region *r = next_chunk(a, &run);
	int err;

	if (!r)
		return false;
	err = arm_run(a->g, r, run);
	if (err) {
		pthread_mutex_lock(&a->lock);
		if (!a->err) {
			a->err = err;
			a->failed = r;
		}
		pthread_mutex_unlock(&a->lock);
	}
	return true;
}

static void *helper_main(void *arg)
{
	while (arm_next(arg))
		;
	return NULL;
}

static uint64_t bytes_left(const struct arm *a)
{
	const struct region_table *t = &a->g->regions;
	uint64_t bytes = 0;
	size_t i;

	for (i = a->region; i < t->count; i++)
		bytes += t->by_index[i]->length;
	return bytes - a->at;
}

/* The rest, with as many threads as there are CPUs and chunks. */
static void arm_together(struct arm *a)
{
	uint64_t max = min_u64(min_u64(thread_cpus(), THREADS_MAX),
			       bytes_left(a) / CHUNK);
	pthread_t helpers[THREADS_MAX];
	unsigned n = 0;

	while (n + 1 < max &&
	       !thread_start(&helpers[n], "snap-arm", helper_main, a))
		n++; /* the rest goes on without those that did not start */
	helper_main(a);
	while (n)
		pthread_join(helpers[--n], NULL);
}

int arm_regions(struct guest *g)
{
	struct arm a = {.g = g, .lock = PTHREAD_MUTEX_INITIALIZER};
	uint64_t before = now_ns();
	size_t i;

	for (i = 0; i < g->regions.count; i++) {
		struct region *r = g->regions.by_index[i];

		/* What is copied in the pause needs no protection. */
		if (!r->registered)
			pagestate_arm(&r->ps, 0, region_pages(r));
	}
	if (arm_next(&a) && now_ns() - before > WORTH_HELP_NS)
		arm_together(&a);
	else
		helper_main(&a);
	if (!a.err)
		return 0;
	return error_sys(a.err == -ENOENT ? -EFAULT : a.err,
			 SNAP_FAILURE_REFUSED,
			 "region %s (0x%" PRIx64 "-0x%" PRIx64
			 ") cannot be write-protected; was it unmapped since "
			 "snap_prepare()?",
			 a.failed->name, a.failed->start, region_end(a.failed));
}

// SPDX-License-Identifier: MIT
/* Write-protecting all RAM, inside the pause. */
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

/* What is left to do; shared by the threads that arm. */
struct arm {
	struct guest *g;
	pthread_mutex_t lock;
	size_t region;
	uint64_t at; /* offset in it */
	int err;     /* the first */
	const struct region *failed;
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
	} while (err == -EAGAIN);
	if (err != -ENOENT || length <= r->page_size)
		return err;
	err = arm_range(g, r, start, half);
	return err ? err : arm_range(g, r, start + half, length - half);
}

/* The next chunk: its region, or NULL when all are taken or one failed. */
static const struct region *next_chunk(struct arm *a, uint64_t *start,
				       uint64_t *length)
{
	const struct region_table *t = &a->g->regions;
	const struct region *r = NULL;
	uint64_t end;

	pthread_mutex_lock(&a->lock);
	while (a->region < t->count && !t->by_index[a->region]->registered)
		a->region++;
	if (!a->err && a->region < t->count) {
		r = t->by_index[a->region];
		*start = r->start + a->at;
		end = align_up(*start + 1, max_u64(CHUNK, r->page_size));
		end = min_u64(end, region_end(r));
		*length = end - *start;
		a->at += *length;
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
	uint64_t start, length;
	const struct region *r = next_chunk(a, &start, &length);
	int err;

	if (!r)
		return false;
	err = arm_range(a->g, r, start, length);
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

// SPDX-License-Identifier: MIT
/* The background walk over pages that nobody has claimed. */
#include "sweep.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "capture.h"
#include "coalesce.h"
#include "protect.h"
#include "survey.h"
#include "sys.h"
#include "thread.h"
#include "window.h"

/* Pages copied in one go while guest threads are faulting: 128 KiB, some ten
 * microseconds. */
#define STEP_PAGES_BUSY 32u

/* Faults count as coming in for this long after the last one. */
#define BUSY_NS 2000000u

/* Faults of a block before the snapshot point that have it saved first. */
#define HEAT_FIRST WINDOW_HEAT_LARGE

/* Which block comes next; shared by the threads that sweep. */
struct walk {
	struct guest *g;
	pthread_mutex_t lock;
	bool hot; /* those that the guest writes all the time come first */
	size_t region;
	uint64_t page;
};

struct sweep {
	struct guest *g;
	struct walk *walk;
	struct capture capture;
	struct region *r;
	uint64_t pending_since; /* oldest saved page not opened, 0: none */
	struct survey survey;
};

/* Unprotect what is saved in [@from, @end). */
static int open_saved(struct sweep *s, uint64_t from, uint64_t end)
{
	struct guest *g = s->g;
	struct page_run run;
	int err = 0;

	s->pending_since = 0;
	for (;;) {
		run = coalesce_next(s->r, from, end);
		if (!run.count)
			break;
		do {
			pthread_mutex_lock(&g->unprotect_lock);
			err = protect_open(g, s->r, run);
			pthread_mutex_unlock(&g->unprotect_lock);
			if (err != -EAGAIN)
				break;
			/* The fault thread has an event to read first. */
			nap_us(50);
		} while (!guest_stopping(g));
		if (err)
			return err == -EAGAIN ? -ECANCELED : err;
		from = run.first + run.count;
	}
	return 0;
}

static bool faults_are_coming(struct guest *g, uint64_t now)
{
	uint64_t last =
		atomic_load_explicit(&g->last_fault_ns, memory_order_relaxed);

	return last && now - last < BUSY_NS;
}

/* How many pages to claim at once at @first of @run. */
static uint64_t step_pages(struct sweep *s, uint64_t first, uint64_t end,
			   uint64_t now)
{
	if (capture_is_huge(s->g, s->r, first) || !faults_are_coming(s->g, now))
		return end - first;
	return min_u64(end - first, STEP_PAGES_BUSY);
}

/* Room for @pages.  To wait for a buffer with saved pages still protected would
 * make the guest wait for the disk: they are opened first. */
static int reserve(struct sweep *s, uint64_t pages, uint64_t at)
{
	int err = 0;

	if (s->pending_since && capture_room(&s->capture) < pages)
		err = open_saved(s, region_block(s->r, at).first, at);
	return err ? err : capture_reserve(&s->capture, pages);
}

/* Take one step in [first, end), all of one kind.  *next: where to go on. */
static int step(struct sweep *s, const struct survey_piece *p, uint64_t first,
		uint64_t *next)
{
	uint64_t end = p->run.first + p->run.count, now = now_ns();
	struct page_run run, block = region_block(s->r, first);
	int err;

	first = pagestate_find(&s->r->ps, first, end, PAGE_ARMED);
	*next = first;
	if (first == end)
		return 0;
	end = first +
	      (p->present ? step_pages(s, first, end, now) : end - first);
	err = reserve(s, p->present ? end - first : 1, first);
	if (err)
		return err;
	run = capture_take(&s->capture, s->r, first, end);
	*next = run.first + run.count;
	if (!run.count)
		return 0;
	if (!s->pending_since)
		s->pending_since = now;
	if (p->present)
		err = capture_pages(&s->capture, s->r, run);
	else
		capture_absent(&s->capture, s->r, run);
	if (err || !coalesce_due(s->pending_since, now_ns()))
		return err;
	return open_saved(s, block.first, *next);
}

static int sweep_block(struct sweep *s, struct page_run block)
{
	uint64_t at;
	unsigned i;
	int err = survey_look(&s->survey, s->g, s->r, block);

	for (i = 0; i < s->survey.count && !err; i++) {
		const struct survey_piece *p = &s->survey.pieces[i];

		at = p->run.first;
		while (at < p->run.first + p->run.count && !err)
			err = guest_stopping(s->g) ? -ECANCELED
						   : step(s, p, at, &at);
	}
	return err ? err
		   : open_saved(s, block.first, block.first + block.count);
}

/* The next block in the order of addresses; the walk's lock is held. */
static struct region *step_walk(struct walk *w, struct page_run *block)
{
	struct region_table *t = &w->g->regions;
	struct region *r;

	while (w->region < t->count &&
	       w->page == region_pages(t->by_index[w->region])) {
		w->region++;
		w->page = 0;
	}
	if (w->region == t->count)
		return NULL;
	r = t->by_index[w->region];
	*block = region_block(r, w->page);
	w->page = block->first + block->count;
	return r;
}

/* The next block that has something to save: hot ones in a first pass. */
static bool next_block(struct walk *w, struct region **r,
		       struct page_run *block)
{
	pthread_mutex_lock(&w->lock);
	for (;;) {
		*r = step_walk(w, block);
		if (!*r && !w->hot)
			break;
		if (!*r) {
			w->hot = false;
			w->region = 0;
			w->page = 0;
			continue;
		}
		if (w->hot &&
		    atomic_load_explicit(region_heat(*r, block->first),
					 memory_order_relaxed) < HEAT_FIRST)
			continue;
		if (pagestate_find(&(*r)->ps, block->first,
				   block->first + block->count,
				   PAGE_ARMED) < block->first + block->count)
			break;
	}
	pthread_mutex_unlock(&w->lock);
	return *r != NULL;
}

/* One block, if there is one left.  False at the end or with *err set. */
static bool sweep_next(struct sweep *s, int *err)
{
	struct page_run block;

	if (!next_block(s->walk, &s->r, &block))
		return false;
	*err = sweep_block(s, block);
	return !*err;
}

static struct sweep *sweep_new(struct walk *w)
{
	struct sweep *s = calloc(1, sizeof(*s));

	if (!s) {
		error_nomem("the sweep");
		return NULL;
	}
	s->g = w->g;
	s->walk = w;
	s->capture.g = w->g;
	return s;
}

/* The second thread: only while the guest does not write. */
static void *helper_main(void *arg)
{
	struct sweep *s = arg;
	int err = 0;

	thread_yielding();
	do {
		if (!faults_are_coming(s->g, now_ns()))
			continue;
		capture_submit(&s->capture);
		nap_us(BUSY_NS / 1000);
	} while (faults_are_coming(s->g, now_ns()) || sweep_next(s, &err));
	capture_submit(&s->capture);
	if (err && err != -ECANCELED)
		failure_report(&s->g->sink, err);
	return NULL;
}

/* Both threads until no block is left. */
static int sweep_blocks(struct walk *w)
{
	struct sweep *own = sweep_new(w), *helped = NULL;
	pthread_t helper;
	int err = 0;

	if (!own)
		return -ENOMEM;
	if (thread_cpus() > 1)
		helped = sweep_new(w);
	if (helped &&
	    thread_start(&helper, "snap-sweep2", helper_main, helped)) {
		free(helped);
		helped = NULL;
	}
	while (sweep_next(own, &err))
		;
	capture_submit(&own->capture);
	if (helped) {
		pthread_join(helper, NULL);
		free(helped);
	}
	free(own);
	return err;
}

/* The fault thread may still hold claims. */
static int wait_for_faults(struct guest *g)
{
	struct pollfd p = {.fd = g->all_saved_fd, .events = POLLIN};

	while (atomic_load(&g->unsaved)) {
		if (guest_stopping(g))
			return -ECANCELED;
		sys_poll(&p, 1, 10);
	}
	return 0;
}

/* What a discard saved without unprotecting it. */
static int open_rest(struct guest *g)
{
	struct sweep s = {.g = g};
	size_t i;
	int err = 0;

	for (i = 0; i < g->regions.count && !err; i++) {
		s.r = g->regions.by_index[i];
		err = open_saved(&s, 0, region_pages(s.r));
	}
	return err;
}

int sweep_run(struct guest *g)
{
	struct walk w = {
		.g = g, .lock = PTHREAD_MUTEX_INITIALIZER, .hot = true};
	int err = sweep_blocks(&w);

	if (!err)
		err = wait_for_faults(g);
	return err ? err : open_rest(g);
}

// SPDX-License-Identifier: MIT
/* Write-protecting RAM before the pause, while the guest runs. */
#include "prearm.h"

#include <errno.h>
#include <sched.h>

#include "arm.h"
#include "uffd.h"
#include "window.h"

/* Of a block: not to be protected before the pause. */
#define HEAT_LEAVE UINT8_MAX

#define ROUNDS_MAX 8u

/* What protecting costs: a call, and each page in it. */
#define CALL_NS 900u
#define PAGE_NS 62u

/* Work of the pause that another round is not worth. */
#define ENOUGH_NS 200000u

/* How long to let an event be read that changes mappings. */
#define EVENT_NAP_US 50

static uint8_t heat_of(const struct region *r, uint64_t page)
{
	return atomic_load_explicit(region_heat(r, page), memory_order_relaxed);
}

static void set_heat(const struct region *r, uint64_t page, uint8_t heat)
{
	atomic_store_explicit(region_heat(r, page), heat, memory_order_relaxed);
}

/* A mark on a hole needs Linux 6.4; where it cannot be had, holes are filled in
 * the pause. */
static bool may_prearm(const struct guest *g, const struct region *r)
{
	if (!r->registered)
		return false;
	return r->kind == REGION_SHARED ||
	       (r->kind == REGION_ANON &&
		(g->features & UFFD_FEATURE_WP_UNPOPULATED));
}

/* The fault thread comes first: it wants the lock too. */
static void let_faults_pass(struct guest *g)
{
	while (atomic_load_explicit(&g->fault_since_ns, memory_order_relaxed) &&
	       !guest_stopping(g))
		sched_yield();
}

/* Protect what is OPEN of @block, if it may be.  0, or -EAGAIN. */
static int try_block(struct guest *g, struct region *r, struct page_run block)
{
	uint64_t end = block.first + block.count;
	struct page_run run;
	int err = 0;

	run = arm_next_run(r, block.first, end);
	while (run.count && !err && heat_of(r, block.first) != HEAT_LEAVE) {
		err = arm_run(g, r, run);
		/* What is wrong with it the pause will tell. */
		if (err && err != -EAGAIN)
			set_heat(r, block.first, HEAT_LEAVE);
		run = arm_next_run(r, run.first + run.count, end);
	}
	return err == -EAGAIN ? err : 0;
}

static void protect_block(struct guest *g, struct region *r,
			  struct page_run block)
{
	int err;

	do {
		let_faults_pass(g);
		pthread_mutex_lock(&g->unprotect_lock);
		err = try_block(g, r, block);
		pthread_mutex_unlock(&g->unprotect_lock);
		if (err)
			nap_us(EVENT_NAP_US);
	} while (err && !guest_stopping(g));
}

/* Huge pages are cheap to protect and dear to fault on. */
static bool is_huge(struct guest *g, const struct region *r, uint64_t page)
{
	return r->kind == REGION_ANON &&
	       residency_huge(&g->residency, region_addr(r, page)) > 0;
}

/* The work that this block leaves for the pause. */
static uint64_t cost_of(const struct region *r, struct page_run block)
{
	uint64_t at = block.first, end = block.first + block.count, cost = 0;
	struct page_run run;

	if (heat_of(r, block.first) == HEAT_LEAVE)
		return 0;
	while ((run = arm_next_run(r, at, end)).count) {
		cost += CALL_NS + run.count * PAGE_NS;
		at = run.first + run.count;
	}
	return cost;
}

/* Whether the guest writes this block all the time. */
static bool is_hot(const struct region *r, uint64_t page)
{
	return heat_of(r, page) >= WINDOW_HEAT_ALL;
}

/* Go over all blocks once. */
static void go_round(struct guest *g, bool first)
{
	struct page_run block;
	uint64_t page;
	struct region *r;
	size_t i;

	for (i = 0; i < g->regions.count; i++) {
		r = g->regions.by_index[i];
		if (!may_prearm(g, r))
			continue;
		for (page = 0; page < region_pages(r) && !guest_stopping(g);
		     page = block.first + block.count) {
			block = region_block(r, page);
			if (first && is_huge(g, r, page))
				set_heat(r, page, HEAT_LEAVE);
			if (!is_hot(r, page))
				protect_block(g, r, block);
		}
	}
}

/* The work left for the pause, now. */
static uint64_t cost_now(const struct guest *g)
{
	struct page_run block;
	uint64_t page, cost = 0;
	struct region *r;
	size_t i;

	for (i = 0; i < g->regions.count; i++) {
		r = g->regions.by_index[i];
		if (!may_prearm(g, r))
			continue;
		for (page = 0; page < region_pages(r);
		     page = block.first + block.count) {
			block = region_block(r, page);
			cost += cost_of(r, block);
		}
	}
	return cost;
}

void prearm_run(struct guest *g)
{
	uint64_t cost, before;
	unsigned round;

	go_round(g, true);
	cost = cost_now(g);
	for (round = 1; round < ROUNDS_MAX && cost > ENOUGH_NS; round++) {
		before = cost;
		go_round(g, false);
		cost = cost_now(g);
		if (cost > before - before / 4)
			break;
	}
	stats_add(&g->stats.prearm_rounds, round);
}

int prearm_fault(struct guest *g, struct region *r, uint64_t page)
{
	uint8_t heat = heat_of(r, page);
	struct page_run run = window_hot(r, page, heat);
	int err = -EALREADY;

	pthread_mutex_lock(&g->unprotect_lock);
	if (!atomic_load_explicit(&g->armed, memory_order_acquire)) {
		if (heat < HEAT_LEAVE - 1)
			set_heat(r, page, heat + 1);
		pagestate_unarm(&r->ps, run.first, run.count);
		err = uffd_unprotect(g->uffd, region_addr(r, run.first),
				     run.count * PAGE_BYTES);
		stats_add(&g->stats.early_faults, 1);
	}
	pthread_mutex_unlock(&g->unprotect_lock);
	return err == -EAGAIN || err == -EALREADY ? err : 0;
}

void prearm_dropped(struct guest *g, uint64_t start, uint64_t end)
{
	uint64_t at = start, page, stop;
	struct page_run block;
	struct region *r;

	while (at < end && (r = region_from(&g->regions, at)) &&
	       r->start < end) {
		page = (max_u64(at, r->start) - r->start) >> PAGE_SHIFT;
		stop = (align_up(min_u64(end, region_end(r)), PAGE_BYTES) -
			r->start) >>
		       PAGE_SHIFT;
		for (; page < stop; page = block.first + block.count) {
			block = region_block(r, page);
			set_heat(r, page, HEAT_LEAVE);
			pagestate_unarm(&r->ps, block.first, block.count);
		}
		at = region_end(r);
	}
}

void prearm_finish(struct guest *g)
{
	struct page_run block;
	struct region *r;
	uint64_t page;
	size_t i;

	for (i = 0; i < g->regions.count; i++) {
		r = g->regions.by_index[i];
		for (page = 0; page < region_pages(r);
		     page = block.first + block.count) {
			block = region_block(r, page);
			if (heat_of(r, page) == HEAT_LEAVE)
				set_heat(r, page, 0);
		}
	}
}

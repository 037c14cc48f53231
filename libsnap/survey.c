// SPDX-License-Identifier: MIT
/* What there is of a stretch of RAM: data, or nothing. */
#include "survey.h"

static void add_piece(struct survey *s, uint64_t first, uint64_t end,
		      bool present)
{
	if (end > first)
		s->pieces[s->count++] =
			(struct survey_piece){{first, end - first}, present};
}

/* Anonymous memory: what the page map has, the rest is known zero. */
static int look_anon(struct survey *s, struct guest *g, struct region *r,
		     struct page_run run)
{
	uint64_t at = run.first, start = r->start;
	bool huge = false;
	int n, i;

	stats_add(&g->stats.syscalls, 1);
	n = residency_runs(&g->residency, region_addr(r, run.first),
			   region_addr(r, run.first + run.count), s->runs);
	if (n < 0)
		return guest_unreadable(g, n);
	for (i = 0; i < n; i++) {
		uint64_t first = (s->runs[i].start - start) >> PAGE_SHIFT;
		uint64_t end = (s->runs[i].end - start) >> PAGE_SHIFT;

		add_piece(s, at, first, false);
		add_piece(s, first, end, true);
		huge |= s->runs[i].huge;
		at = end;
	}
	add_piece(s, at, run.first + run.count, false);
	if (g->residency.scan)
		atomic_store_explicit(region_block_kind(r, run.first),
				      huge ? BLOCK_HUGE : BLOCK_SMALL,
				      memory_order_relaxed);
	return 0;
}

/*
 * Shared memory: what its file has; a touch would fill a hole.  A run seen with
 * data stays true, one seen as a hole too: all that can happen to it before it
 * is saved is that zeros are put there.
 */
static int look_shared(struct survey *s, struct guest *g,
		       const struct region *r, struct page_run run)
{
	uint64_t at = run.first, end = run.first + run.count;
	uint64_t total = region_pages(r), stop;

	if (s->r != r) {
		s->r = r;
		s->data = (struct page_run){0, 0};
		s->data_from = 0;
	}
	while (at < end) {
		if (at < s->data_from || at >= s->data.first + s->data.count) {
			s->data = target_data(&g->target, r, at, total);
			s->data_from = at;
		}
		if (!s->data.count) {
			/* No data from here to the end of the region. */
			s->data.first = total;
			add_piece(s, at, end, false);
			return 0;
		}
		stop = min_u64(s->data.first, end);
		if (at < stop) {
			add_piece(s, at, stop, false);
			at = stop;
			continue;
		}
		stop = min_u64(s->data.first + s->data.count, end);
		add_piece(s, at, stop, true);
		at = stop;
	}
	return 0;
}

int survey_look(struct survey *s, struct guest *g, struct region *r,
		struct page_run run)
{
	s->count = 0;
	switch (r->kind) {
	case REGION_ANON:
	case REGION_HUGETLB:
		return look_anon(s, g, r, run);
	case REGION_SHARED:
		return look_shared(s, g, r, run);
	case REGION_HUGETLB_SHARED:
	case REGION_COPIED: /* saved before anybody looks */
		break;
	}
	add_piece(s, run.first, run.first + run.count, true);
	return 0;
}

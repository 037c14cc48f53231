// SPDX-License-Identifier: MIT
/* How much is copied around a fault. */
#include "window.h"

/* The share of the past in the smoothed gap: 7/8. */
#define SMOOTHING 8

/* A gap longer than this says no more than that there was a pause. */
#define GAP_MAX_NS 10000000u

void window_fault(struct window *w, uint64_t since)
{
	uint64_t gap = GAP_MAX_NS;

	if (!w->answered_ns) {
		w->gap_ns = gap;
		return;
	}
	/* One that came while another was being answered has waited. */
	if (since <= w->answered_ns)
		gap = 0;
	else
		gap = min_u64(gap, since - w->answered_ns);
	w->gap_ns = (w->gap_ns * (SMOOTHING - 1) + gap) / SMOOTHING;
}

void window_answered(struct window *w, uint64_t now)
{
	w->answered_ns = now;
}

static uint64_t wanted_pages(const struct window *w, unsigned heat)
{
	if (w->gap_ns < WINDOW_DENSE_NS || heat >= WINDOW_HEAT_LARGE)
		return WINDOW_LARGE_PAGES;
	if (w->gap_ns < WINDOW_OFTEN_NS || heat >= WINDOW_HEAT_MIDDLE)
		return WINDOW_MIDDLE_PAGES;
	return 1;
}

/* @pages around @page, aligned as addresses are, like everything that the kernel
 * is asked to unprotect. */
static struct page_run aligned(const struct region *r, uint64_t page,
			       uint64_t pages)
{
	uint64_t addr = align_down(region_addr(r, page), pages * PAGE_BYTES);
	uint64_t first = max_u64(addr, r->start);
	uint64_t end = min_u64(addr + pages * PAGE_BYTES, region_end(r));

	return (struct page_run){(first - r->start) >> PAGE_SHIFT,
				 (end - first) >> PAGE_SHIFT};
}

struct page_run window_around(const struct window *w, const struct region *r,
			      uint64_t page, unsigned heat,
			      enum window_room room)
{
	uint64_t pages = wanted_pages(w, heat);

	if (room == WINDOW_ROOM_NONE)
		pages = 1;
	else if (room == WINDOW_ROOM_SHORT)
		pages = min_u64(pages, WINDOW_MIDDLE_PAGES);
	return aligned(r, page, pages);
}

struct page_run window_hot(const struct region *r, uint64_t page, unsigned heat)
{
	uint64_t pages = 1;

	if (heat >= WINDOW_HEAT_ALL)
		pages = BLOCK_PAGES;
	else if (heat >= WINDOW_HEAT_LARGE)
		pages = WINDOW_LARGE_PAGES;
	else if (heat >= WINDOW_HEAT_MIDDLE)
		pages = WINDOW_MIDDLE_PAGES;
	return aligned(r, page, pages);
}

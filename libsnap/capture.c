// SPDX-License-Identifier: MIT
/* The one way a page gets out. */
#include "capture.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "audit.h"
#include "sys.h"

/* Half the pages of a run may drop out of it one by one: as many extents more. */
#define EXTENTS_BEFORE_STEAL (BUF_EXTENTS_CAPTURE - BLOCK_PAGES / 2)

uint64_t capture_room(const struct capture *c)
{
	unsigned max = c->by_fault ? BUF_EXTENTS_CAPTURE : EXTENTS_BEFORE_STEAL;

	if (!c->buf || c->buf->extent_count >= max)
		return 0;
	return (BUF_PAYLOAD_ROOM - c->buf->payload_len) / PAGE_BYTES;
}

int capture_reserve(struct capture *c, uint64_t pages)
{
	struct buf *b;

	if (capture_room(c) >= pages)
		return 0;
	capture_submit(c);
	if (guest_stopping(c->g))
		return -ECANCELED;
	if (c->by_fault || c->in_pause)
		b = bufpool_try_get_fault(c->g->pool);
	else
		b = bufpool_get_sweep(c->g->pool);
	if (!b)
		return c->by_fault || c->in_pause ? -EAGAIN : -ECANCELED;
	c->buf = b;
	return 0;
}

void capture_submit(struct capture *c)
{
	if (!c->buf)
		return;
	if (c->buf->extent_count)
		encode_submit(c->g->encoder, c->buf);
	else
		bufpool_put(c->g->pool, c->buf);
	c->buf = NULL;
}

/* Append to the buffer's table, joined to the last extent where it continues
 * it. */
static void add_extent(struct buf *b, const struct region *r,
		       struct page_run run, enum frame_kind kind)
{
	struct frame_extent *last = NULL;

	if (b->extent_count)
		last = &b->extents[b->extent_count - 1];
	if (last && last->region == r->index && last->kind == kind &&
	    last->first_page + last->count == run.first) {
		last->count += (uint32_t)run.count;
		return;
	}
	b->extents[b->extent_count++] = (struct frame_extent){
		.first_page = run.first,
		.count = (uint32_t)run.count,
		.region = r->index,
		.kind = (uint16_t)kind,
	};
}

struct page_run capture_take(struct capture *c, struct region *r,
			     uint64_t first, uint64_t end)
{
	uint64_t n;

	while (first < end) {
		enum page_state state = pagestate_get(&r->ps, first);

		n = 0;
		if (state == PAGE_ARMED)
			n = pagestate_claim(&r->ps, first, end - first);
		else if (state == PAGE_COPYING && c->by_fault)
			n = pagestate_steal(&r->ps, first, end - first);
		if (n)
			return (struct page_run){first, n};
		/* Taken by the other one between the look and the claim: to be
		 * looked at again, as it may have to be stolen. */
		first += state != PAGE_ARMED;
	}
	return (struct page_run){end, 0};
}

/* @kept pages more are saved; who saves the last one tells. */
static void count_saved(struct guest *g, uint64_t kept)
{
	uint64_t one = 1;

	if (kept && atomic_fetch_sub(&g->unsaved, kept) == kept)
		sys_write(g->all_saved_fd, &one, sizeof(one));
}

static bool is_lost(const uint64_t *lost, uint64_t i)
{
	return lost[i / 64] >> i % 64 & 1;
}

/* Enter a part of a run; @bytes, its copy, moves up where pages before it
 * dropped out. */
static void keep(struct buf *b, const struct region *r, struct page_run part,
		 enum frame_kind kind, const uint8_t *bytes)
{
	uint8_t *to = b->payload + b->payload_len;

	add_extent(b, r, part, kind);
	if (kind != FRAME_DATA)
		return;
	if (to != bytes)
		memmove(to, bytes, part.count * PAGE_BYTES);
	b->payload_len += part.count * PAGE_BYTES;
}

/*
 * The run's copy is in the buffer, behind payload_len: mark its pages saved and
 * enter those that are still the caller's.  Returns how many.
 */
static uint64_t commit(struct capture *c, struct region *r, struct page_run run,
		       enum frame_kind kind)
{
	uint64_t lost[BLOCK_PAGES / 64] = {0}, gone = 0, i, n;
	uint8_t *copy = c->buf->payload + c->buf->payload_len;

	assert(run.count <= BLOCK_PAGES);
	if (c->by_fault)
		pagestate_saved(&r->ps, run.first, run.count);
	else
		gone = pagestate_saved_or_lost(&r->ps, run.first, run.count,
					       lost);
	for (i = 0; i < run.count; i += n) {
		bool is_gone = is_lost(lost, i);

		for (n = 1; i + n < run.count; n++)
			if (is_lost(lost, i + n) != is_gone)
				break;
		if (!is_gone)
			keep(c->buf, r, (struct page_run){run.first + i, n},
			     kind, copy + i * PAGE_BYTES);
	}
	return run.count - gone;
}

int capture_pages(struct capture *c, struct region *r, struct page_run run)
{
	struct guest *g = c->g;
	uint64_t kept;
	int err = target_read(&g->target, r, run.first, run.count,
			      c->buf->payload + c->buf->payload_len);

	if (err == -ESRCH)
		return guest_gone(g);
	if (err)
		return error_set(err == -EFAULT ? -ENODATA : err,
				 err == -EFAULT ? SNAP_FAILURE_LOST
						: SNAP_FAILURE_INTERNAL,
				 "region %s was unmapped or cut short around "
				 "0x%" PRIx64 " before it was saved",
				 r->name, region_addr(r, run.first));
	err = audit_check(g, r, run, c->buf->payload + c->buf->payload_len);
	if (err)
		return err;
	kept = commit(c, r, run, FRAME_DATA);
	stats_add(c->in_pause	? &g->stats.pages_in_pause
		  : c->by_fault ? &g->stats.pages_by_fault
				: &g->stats.pages_by_sweep,
		  kept);
	count_saved(g, kept);
	return 0;
}

void capture_absent(struct capture *c, struct region *r, struct page_run run)
{
	uint64_t kept = commit(c, r, run, FRAME_ABSENT);

	stats_add(&c->g->stats.pages_absent, kept);
	count_saved(c->g, kept);
}

bool capture_is_huge(struct guest *g, struct region *r, uint64_t page)
{
	_Atomic uint8_t *kind = region_block_kind(r, page);
	struct page_run block = region_block(r, page);
	int huge;

	if (region_is_hugetlb(r))
		return true;
	if (r->kind != REGION_ANON || block.count != BLOCK_PAGES)
		return false;
	if (atomic_load_explicit(kind, memory_order_relaxed) == BLOCK_UNKNOWN) {
		stats_add(&g->stats.syscalls, 1);
		huge = residency_huge(&g->residency, region_addr(r, page));
		/* It cannot become huge later: khugepaged passes over marked
		 * ranges (mm/khugepaged.c, SCAN_PTE_UFFD_WP). */
		atomic_store_explicit(kind, huge ? BLOCK_HUGE : BLOCK_SMALL,
				      memory_order_relaxed);
	}
	return atomic_load_explicit(kind, memory_order_relaxed) == BLOCK_HUGE;
}

struct page_run capture_unit(struct guest *g, struct region *r, uint64_t page)
{
	uint64_t pages = r->page_size / PAGE_BYTES;

	if (capture_is_huge(g, r, page) && pages <= 1)
		return region_block(r, page);
	return (struct page_run){align_down(page, pages), pages};
}

// SPDX-License-Identifier: MIT
/* The one way a page gets out. */
#include "capture.h"

#include <errno.h>
#include <inttypes.h>

#include "sys.h"

uint64_t capture_room(const struct capture *c)
{
	if (!c->buf || c->buf->extent_count >= BUF_EXTENTS_CAPTURE)
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
	if (c->by_fault)
		b = bufpool_try_get_fault(c->g->pool);
	else
		b = bufpool_get_sweep(c->g->pool);
	if (!b)
		return c->by_fault ? -EAGAIN : -ECANCELED;
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

/* Pages become SAVED; who sees the last one tells. */
static bool mark_saved(struct guest *g, struct region *r, struct page_run run)
{
	bool waited = pagestate_saved(&r->ps, run.first, run.count);
	uint64_t one = 1;

	if (atomic_fetch_sub(&g->unsaved, run.count) == run.count)
		sys_write(g->all_saved_fd, &one, sizeof(one));
	return waited;
}

int capture_pages(struct capture *c, struct region *r, struct page_run run,
		  bool *waited)
{
	struct buf *b = c->buf;
	struct guest *g = c->g;
	int err = target_read(&g->target, r, run.first, run.count,
			      b->payload + b->payload_len);

	if (err)
		return error_set(err == -EFAULT ? -ENODATA : err,
				 err == -EFAULT ? SNAP_FAILURE_LOST
						: SNAP_FAILURE_INTERNAL,
				 "region %s was unmapped or cut short around "
				 "0x%" PRIx64 " before it was saved",
				 r->name, region_addr(r, run.first));
	b->payload_len += run.count * PAGE_BYTES;
	add_extent(b, r, run, FRAME_DATA);
	stats_add(c->by_fault ? &g->stats.pages_by_fault
			      : &g->stats.pages_by_sweep,
		  run.count);
	*waited |= mark_saved(g, r, run);
	return 0;
}

void capture_absent(struct capture *c, struct region *r, struct page_run run,
		    bool *waited)
{
	add_extent(c->buf, r, run, FRAME_ABSENT);
	stats_add(&c->g->stats.pages_absent, run.count);
	*waited |= mark_saved(c->g, r, run);
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

bool capture_try_own(struct region *r, uint64_t page)
{
	return !atomic_exchange_explicit(&r->owned[region_block_slot(r, page)],
					 true, memory_order_acquire);
}

void capture_disown(struct region *r, uint64_t page)
{
	atomic_store_explicit(&r->owned[region_block_slot(r, page)], false,
			      memory_order_release);
}

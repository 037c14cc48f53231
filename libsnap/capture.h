/* SPDX-License-Identifier: MIT */
/*
 * The one way a page gets out: claimed by the caller, read from the target into
 * a buffer, marked saved.  Used by the fault thread and by the sweep, each with
 * a struct capture of its own.
 *
 * A buffer is taken before pages are claimed.  The sweep claims; the fault
 * thread claims or steals (pagestate.h), so that it never waits for a copy of
 * the sweep's, whose pages then drop out of the sweep's buffer.
 */
#ifndef SNAP_CAPTURE_H
#define SNAP_CAPTURE_H

#include "guest.h"

struct capture {
	struct guest *g;
	bool by_fault;	 /* whose pages these are, and whose buffers */
	bool in_pause;	 /* ... and that nobody waits for buffers */
	struct buf *buf; /* being filled, or NULL */
};

/** Pages that the buffer in hand can still take: 0 when there is none. */
uint64_t capture_room(const struct capture *c);

/**
 * See to it that there is room for @pages (BLOCK_PAGES at most): hands the
 * buffer in hand over when it has less, and takes a new one.  For the sweep it
 * waits; -ECANCELED when the pool is closed.  For the fault thread -EAGAIN when
 * no buffer is free.
 */
int capture_reserve(struct capture *c, uint64_t pages);

/**
 * The next run of [@first, @end) that is the caller's to copy: claimed by this
 * call or, for the fault thread, stolen from the sweep.  Count 0 when nothing
 * is left to take.
 */
struct page_run capture_take(struct capture *c, struct region *r,
			     uint64_t first, uint64_t end);

/**
 * Copy pages that capture_take() gave and mark them saved.  There must be room.
 * 0, or -errno with the text set when they are not there any more; then they
 * stay COPYING and the snapshot has failed.
 */
int capture_pages(struct capture *c, struct region *r, struct page_run run);

/** Note pages that capture_take() gave as absent and mark them saved.  There
 * must be room for one page more. */
void capture_absent(struct capture *c, struct region *r, struct page_run run);

/** Hand what there is to the encoder. */
void capture_submit(struct capture *c);

/** Whether the 2 MiB around @page are one huge page, which must be taken whole.
 * Where the kernel does not tell (before 6.7) it is assumed of every block that
 * could be one: to take 2 MiB of small pages whole is right as well. */
bool capture_is_huge(struct guest *g, struct region *r, uint64_t page);

/** Pages around @page that must be taken together: a huge page or one page. */
struct page_run capture_unit(struct guest *g, struct region *r, uint64_t page);

#endif

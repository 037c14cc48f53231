/* SPDX-License-Identifier: MIT */
/*
 * The one way a page gets out: claimed by the caller, read from the target into
 * a buffer, marked saved.  Used by the fault thread and by the sweep, each with
 * a struct capture of its own.
 *
 * A buffer is taken before pages are claimed: whoever loses a claim waits for a
 * copy, never for a buffer.
 */
#ifndef SNAP_CAPTURE_H
#define SNAP_CAPTURE_H

#include "guest.h"

struct capture {
	struct guest *g;
	bool by_fault;	 /* whose pages these are, and whose buffers */
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
 * Copy pages that the caller has claimed and mark them saved.  There must be
 * room.  *waited is set when a guest thread waits for one of them.
 * 0, or -errno with the text set when they are not there any more; then they
 * stay COPYING and the snapshot has failed.
 */
int capture_pages(struct capture *c, struct region *r, struct page_run run,
		  bool *waited);

/** Note claimed pages as absent and mark them saved.  There must be room for
 * one page more. */
void capture_absent(struct capture *c, struct region *r, struct page_run run,
		    bool *waited);

/** Hand what there is to the encoder. */
void capture_submit(struct capture *c);

/** Whether the 2 MiB around @page are one huge page, which must be taken whole.
 * Where the kernel does not tell (before 6.7) it is assumed of every block that
 * could be one: to take 2 MiB of small pages whole is right as well. */
bool capture_is_huge(struct guest *g, struct region *r, uint64_t page);

/** Pages around @page that must be taken together: a huge page or one page. */
struct page_run capture_unit(struct guest *g, struct region *r, uint64_t page);

/**
 * The right to claim pages of a huge page: one owner at a time, who then takes
 * or leaves all that is ARMED in it.  Without it the fault thread and the sweep
 * could each own a part, and the first to be done would open a part, which
 * splits the huge page.  Small pages (capture_unit() of one) need none.
 * True when it is the caller's, to be given back after the copy, which comes at
 * once: nobody may wait for anything but the copy while he has it.
 */
bool capture_try_own(struct region *r, uint64_t page);
void capture_disown(struct region *r, uint64_t page);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * How much is copied around a fault; pure policy, no system calls.
 *
 * How it works.  What is copied around a fault had to be copied anyway, and
 * spares the guest the faults that it would have had there: a fault costs it
 * some 20 us with one page, 30 with 64 KiB, 50 with 256 KiB and 150 with 2 MiB.
 * So a window grows where more faults are to be expected: when the guest faults
 * again as soon as it has been answered, and in a block in which it faulted
 * before.  It shrinks when the guest faults seldom, and when buffers run short.
 * It ends at 256 KiB: with 2 MiB the guest gets a tenth more done, but who
 * waits behind such a copy waits three times as long (docs/design.md).
 */
#ifndef SNAP_WINDOW_H
#define SNAP_WINDOW_H

#include "region.h"

/** Pages of the windows: 64 KiB and 256 KiB. */
#define WINDOW_MIDDLE_PAGES 16u
#define WINDOW_LARGE_PAGES 64u

/** Faults nearer to each other than this come from a guest that writes
 * everywhere: the large window.  Answering one and waking its thread takes some
 * 20 us of it. */
#define WINDOW_DENSE_NS 60000u
/** And nearer than this: the middle window. */
#define WINDOW_OFTEN_NS 1000000u

/** Earlier faults of a block that make it worth either window, or, before the
 * snapshot point, when nothing is copied, all of it. */
#define WINDOW_HEAT_MIDDLE 2u
#define WINDOW_HEAT_LARGE 4u
#define WINDOW_HEAT_ALL 8u

/** How many buffers there are for it. */
enum window_room {
	WINDOW_ROOM_NONE,  /**< one page: keep them for those who wait */
	WINDOW_ROOM_SHORT, /**< the middle window at most */
	WINDOW_ROOM_AMPLE,
};

/* Zeroed by who makes it.  Of one thread. */
struct window {
	uint64_t answered_ns; /* when the last fault was; 0: none yet */
	uint64_t gap_ns;      /* from an answer to the next fault, smoothed */
};

/** A fault came at @since. */
void window_fault(struct window *w, uint64_t since);
/** It was answered at @now. */
void window_answered(struct window *w, uint64_t now);

/** What to copy around @page of @r, whose block had @heat faults before: one
 * page or an aligned window, cut off at the region's ends. */
struct page_run window_around(const struct window *w, const struct region *r,
			      uint64_t page, unsigned heat,
			      enum window_room room);

/** What to open around a fault on @page before the snapshot point. */
struct page_run window_hot(const struct region *r, uint64_t page,
			   unsigned heat);

#endif

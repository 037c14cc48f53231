/* SPDX-License-Identifier: MIT */
/*
 * The state of every page of a region, 4 bits each, and the atomic claim.
 *
 *   OPEN --arm--> ARMED --claim--> COPYING --saved--> SAVED --open--> OPEN
 *
 * How it works.  Whoever moves a page from ARMED to COPYING owns its copy.  The
 * sweep claims long runs and may be preempted with them in its hands; a guest
 * thread that faults on such a page must not wait for that.  So the fault
 * thread, and nobody else, may steal a COPYING page: it leaves PAGE_STOLEN
 * behind and copies the page once more, which gives the same bytes as long as
 * the page is protected.  The sweep learns of it when it is done and drops its
 * own copy, which may be torn by then.
 *
 * Before the snapshot point a page is OPEN, which is not protected, or ARMED,
 * which is; it may go to and fro between the two (prearm.h).
 *
 * SAVED is set with release order after the copy and read with acquire order
 * before an unprotect: a page is unprotected only when its copy is in a buffer.
 * OPEN is set before the ioctl that unprotects, so a fault on an OPEN page may
 * be early: it is answered by unprotecting again, which is harmless.
 */
#ifndef SNAP_PAGESTATE_H
#define SNAP_PAGESTATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum page_state {
	PAGE_ARMED = 0,
	PAGE_COPYING = 1,
	PAGE_SAVED = 2,
	PAGE_OPEN = 3,
};

/* The fault thread took the page from its claimer, who does not know yet. */
#define PAGE_STOLEN 4u

struct pagestate {
	_Atomic uint64_t *words; /* 16 pages each */
	uint64_t pages;
};

/** All pages ARMED.  0 or -ENOMEM with the text set. */
int pagestate_init(struct pagestate *ps, uint64_t pages);
void pagestate_free(struct pagestate *ps);

enum page_state pagestate_get(const struct pagestate *ps, uint64_t page);

/** OPEN pages of the range become ARMED, and the other way round: before the
 * snapshot point only. */
void pagestate_arm(struct pagestate *ps, uint64_t first, uint64_t count);
void pagestate_unarm(struct pagestate *ps, uint64_t first, uint64_t count);

/** Claim pages from @first on, @max at most, while they are ARMED.  Returns
 * how many are the caller's now. */
uint64_t pagestate_claim(struct pagestate *ps, uint64_t first, uint64_t max);

/** Take pages from @first on, @max at most, from the sweep that is COPYING
 * them.  Returns how many are the caller's now.  The fault thread only. */
uint64_t pagestate_steal(struct pagestate *ps, uint64_t first, uint64_t max);

/** The caller's COPYING pages, claimed or stolen, become SAVED. */
void pagestate_saved(struct pagestate *ps, uint64_t first, uint64_t count);

/** The same for a claimer who may have been stolen from: bit i of @lost is set
 * for each page @first + i that is not his any more; @lost has a bit for each
 * of @count pages and is zero before.  Returns how many were lost. */
uint64_t pagestate_saved_or_lost(struct pagestate *ps, uint64_t first,
				 uint64_t count, uint64_t *lost);

/** SAVED pages of the range become OPEN; others stay. */
void pagestate_open(struct pagestate *ps, uint64_t first, uint64_t count);

/** The first page in [@first, @end) in @state, or @end. */
uint64_t pagestate_find(const struct pagestate *ps, uint64_t first,
			uint64_t end, enum page_state state);

/** How many pages from @first on, below @end, are in @state. */
uint64_t pagestate_run(const struct pagestate *ps, uint64_t first, uint64_t end,
		       enum page_state state);

/** Whether every page of the range is SAVED or OPEN. */
bool pagestate_all_saved(const struct pagestate *ps, uint64_t first,
			 uint64_t count);

#endif

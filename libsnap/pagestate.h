/* SPDX-License-Identifier: MIT */
/*
 * The state of every page of a region, 4 bits each, and the atomic claim.
 *
 *   ARMED --claim--> COPYING --saved--> SAVED --open--> OPEN
 *
 * How it works.  Whoever moves a page from ARMED to COPYING owns its copy; the
 * other one sees COPYING and, if a guest thread waits for the page, leaves
 * PAGE_WAITED behind, which makes the owner unprotect at once instead of
 * waiting for a large run.  SAVED is set with release order after the copy and
 * read with acquire order before an unprotect: a page is unprotected only when
 * its copy is in a buffer.  OPEN is set before the ioctl that unprotects, so a
 * fault on an OPEN page may be early: it is answered by unprotecting again,
 * which is harmless.
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

/* Beside PAGE_COPYING: a guest thread waits for this page. */
#define PAGE_WAITED 4u

struct pagestate {
	_Atomic uint64_t *words; /* 16 pages each */
	uint64_t pages;
};

/** All pages ARMED.  0 or -ENOMEM with the text set. */
int pagestate_init(struct pagestate *ps, uint64_t pages);
void pagestate_free(struct pagestate *ps);

enum page_state pagestate_get(const struct pagestate *ps, uint64_t page);

/** Claim pages from @first on, @max at most, while they are ARMED.  Returns
 * how many are the caller's now. */
uint64_t pagestate_claim(struct pagestate *ps, uint64_t first, uint64_t max);

/** The caller's COPYING pages become SAVED.  True when somebody waits. */
bool pagestate_saved(struct pagestate *ps, uint64_t first, uint64_t count);

/** What state @page is in; if it is COPYING its owner is told that a guest
 * thread waits, atomically with the look. */
enum page_state pagestate_wait(struct pagestate *ps, uint64_t page);

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

/* SPDX-License-Identifier: MIT */
/*
 * Turns saved pages into few, aligned unprotect ranges; pure policy, no system
 * calls.
 *
 * Each unprotect is an mmu_notifier invalidation, upon which a stock KVM drops
 * its mappings of the range (kvm_mmu_notifier_invalidate_range_start), so runs
 * grow to a whole 2 MiB block, aligned, and hold no page that is open already:
 * a page in such a range twice costs the guest another fault.  A run is flushed
 * when its block is done, when somebody waits inside, or after a short
 * deadline.
 */
#ifndef SNAP_COALESCE_H
#define SNAP_COALESCE_H

#include "region.h"

/** How long a saved page may stay protected for the sake of a larger run. */
#define COALESCE_DEADLINE_NS 2000000u

/**
 * What to unprotect first in [@from, @end): a run of SAVED pages within one
 * block.  A huge page is taken whole, also what is OPEN of it already, since a
 * part of it would split it, or be refused if it is hugetlb; as long as it is
 * saved in part only it is passed over, and who saves the rest opens it.
 * Count 0 when there is nothing.
 */
struct page_run coalesce_next(const struct region *r, uint64_t from,
			      uint64_t end);

/** The run of SAVED pages around @page within its 2 MiB block: what to
 * unprotect when a guest thread waits for @page.  At least @page itself, also
 * when it is OPEN already; the whole block if it is a huge page, all of which
 * must be saved. */
struct page_run coalesce_around(const struct region *r, uint64_t page);

/** Whether saved pages that have waited since @since must not wait on. */
static inline bool coalesce_due(uint64_t since, uint64_t now)
{
	return now - since >= COALESCE_DEADLINE_NS;
}

#endif

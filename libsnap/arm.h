/* SPDX-License-Identifier: MIT */
/*
 * Write-protecting RAM: all that is not protected yet, inside the pause.
 *
 * How it works.  The kernel walks every page table entry, about 18 ms for a GiB
 * of small pages, and takes its lock on the address space only for reading
 * (mm/userfaultfd.c: mwriteprotect_range()).  So RAM is taken in chunks by
 * several threads.  The first chunk is timed: where the guest has huge pages
 * all of it takes less than starting a thread, and none is started.
 *
 * A page that is OPEN before the snapshot point is not protected, one that is
 * ARMED is (prearm.h).
 */
#ifndef SNAP_ARM_H
#define SNAP_ARM_H

#include "guest.h"

/** Protect what is OPEN of every region.  0, or -errno with the text set; then a part may be
 * protected: protect_release(). */
int arm_regions(struct guest *g);

/** Protect what is OPEN of @run, and maybe what lies between.  0 or -errno, no
 * text; then a part of it may be protected, but counts as OPEN. */
int arm_run(struct guest *g, struct region *r, struct page_run run);

/** The first stretch of [@from, @end) that arm_run() would protect in one call:
 * it begins and ends with an OPEN page.  Count 0 when there is none. */
struct page_run arm_next_run(const struct region *r, uint64_t from,
			     uint64_t end);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Write-protecting all RAM, inside the pause.
 *
 * How it works.  The kernel walks every page table entry, about 18 ms for a GiB
 * of small pages, and takes its lock on the address space only for reading
 * (mm/userfaultfd.c: mwriteprotect_range()).  So RAM is taken in chunks by
 * several threads.  The first chunk is timed: where the guest has huge pages
 * all of it takes less than starting a thread, and none is started.
 */
#ifndef SNAP_ARM_H
#define SNAP_ARM_H

#include "guest.h"

/** Protect every region.  0, or -errno with the text set; then a part may be
 * protected: protect_release(). */
int arm_regions(struct guest *g);

#endif

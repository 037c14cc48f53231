/* SPDX-License-Identifier: MIT */
/* Copies, inside the pause, the memory that userfaultfd does not take. */
#ifndef SNAP_PAUSECOPY_H
#define SNAP_PAUSECOPY_H

#include "guest.h"

/**
 * Save all pages of the regions of kind REGION_COPIED, in buffers and not on
 * disk.  While the guest stands and nobody else captures anything.
 * 0, or -errno with the text set: -E2BIG when they are too large for that.
 */
int pausecopy_run(struct guest *g);

#endif

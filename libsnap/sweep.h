/* SPDX-License-Identifier: MIT */
/*
 * The background walk over pages that nobody has claimed.
 *
 * How it works.  Block by block of 2 MiB: look what is there, take a buffer,
 * claim a step, copy it, mark it saved; when the block is done unprotect what
 * was saved in it in one call.  While faults come in the steps are short, so
 * that the fault thread seldom has to copy once more what the sweep has in
 * hand; when nobody faults a step is the whole block.
 */
#ifndef SNAP_SWEEP_H
#define SNAP_SWEEP_H

#include "guest.h"

/**
 * Save and unprotect everything that nobody else saves, then wait until the
 * fault thread has saved its pages too.  On return 0 all pages are SAVED, and
 * the buffers of the sweep are handed over.  -ECANCELED when told to stop,
 * otherwise -errno with the text set.
 */
int sweep_run(struct guest *g);

#endif

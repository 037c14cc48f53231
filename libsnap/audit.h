/* SPDX-License-Identifier: MIT */
/*
 * Proof by sample: some pages are checksummed in the pause, and their copies
 * must have the same checksum.
 *
 * How it works.  audit_take() chooses pages by chance among those that have
 * something and keeps a checksum of each, in order, for audit_check(), which
 * whoever has copied pages calls.  After the pause nothing of it changes, so
 * there is no lock.  It finds what write-protection does not see: DMA, writes
 * through the file or another process, and errors of ours.
 */
#ifndef SNAP_AUDIT_H
#define SNAP_AUDIT_H

#include "guest.h"

struct audit;

/** 0 with *@out, NULL for @percent 0; or -ENOMEM with the text set. */
int audit_create(struct audit **out, unsigned percent);
void audit_destroy(struct audit *a);

/** In the pause, everything protected: choose and checksum.  NULL is fine.
 * 0 or -errno with the text set. */
int audit_take(struct audit *a, struct guest *g);

/** Compare the copy of a run.  0, or -EILSEQ with the text set. */
int audit_check(struct guest *g, const struct region *r, struct page_run run,
		const void *copy);

#endif

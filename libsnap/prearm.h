/* SPDX-License-Identifier: MIT */
/*
 * Write-protecting RAM before the pause, while the guest runs.
 *
 * How it works.  To protect a GiB of small pages takes some 10 ms, in which the
 * guest would stand.  So it is done beforehand, in slices.  A write to a page
 * protected so early makes a fault that only opens the page again and marks it
 * hot (OPEN); inside the pause nothing but the hot pages is left to protect, so
 * the pause follows what the guest writes, not what it has.
 *
 * Pages that were written once in a while are protected again in further
 * rounds, as long as these make the work of the pause less.  Where the guest
 * writes all the time it is left alone.
 *
 * Huge pages are left to the pause: one call protects 512 pages there.  So is
 * what the guest drops meanwhile: the event that tells of a madvise() comes
 * before the kernel takes the marks away, and no round may protect it again
 * before that.
 *
 * Locks: unprotect_lock over each change of a page's state and protection
 * together, so that the two agree at the snapshot point.
 */
#ifndef SNAP_PREARM_H
#define SNAP_PREARM_H

#include "guest.h"

/** Protect what is cheaper to protect now.  What cannot be is left to the pause,
 * which tells why. */
void prearm_run(struct guest *g);

/**
 * A fault on @page before the snapshot point: open it, and more around it where
 * the guest has faulted before.  0; -EAGAIN when an event has to be read first;
 * -EALREADY when the snapshot point has come, and it is a fault like any other.
 */
int prearm_fault(struct guest *g, struct region *r, uint64_t page);

/** The guest drops [@start, @end) before the snapshot point.  unprotect_lock is
 * held. */
void prearm_dropped(struct guest *g, uint64_t start, uint64_t end);

/** At the snapshot point: what was hot remains known, what only was left to the
 * pause is forgotten. */
void prearm_finish(struct guest *g);

#endif

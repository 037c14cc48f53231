/* SPDX-License-Identifier: MIT */
/*
 * Gives the snapshot up before the guest waits too long.
 *
 * How it works.  The fault thread notes since when its oldest message has not
 * been answered (guest.fault_since_ns); a thread of its own looks at the note
 * four times in each limit.  So it also finds a fault thread that hangs.
 */
#ifndef SNAP_WATCHDOG_H
#define SNAP_WATCHDOG_H

#include "guest.h"

struct watchdog;

/** Start it; @limit_ms 0 starts none and sets *@out to NULL.  0 or -errno. */
int watchdog_start(struct watchdog **out, struct guest *g, unsigned limit_ms);
/** NULL is fine. */
void watchdog_stop(struct watchdog *w);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The fault thread: answers the guest's writes to pages not saved yet.
 *
 * How it works.  Read many messages, claim, copy into a buffer, mark saved,
 * unprotect (which wakes), next.  What it must not do is wait: a page that the
 * sweep is copying is stolen from it (pagestate.h); an unprotect that the
 * kernel refuses while mappings change (EAGAIN) is parked until the event
 * behind it has been read; a fault that finds no buffer queues in order until
 * the pool has one.
 */
#ifndef SNAP_FAULT_H
#define SNAP_FAULT_H

#include "guest.h"

struct fault_thread;

/** Get everything ready and start the thread.  0 or -errno with the text. */
int fault_start(struct fault_thread **out, struct guest *g);

/**
 * End the thread: to be called when the regions are unregistered, so that no
 * new message can come; those that are queued are read first, which lets their
 * callers go on.  Hands the last buffer over to the encoder.  NULL is fine.
 */
void fault_stop(struct fault_thread *t);

#endif

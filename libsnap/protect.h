/* SPDX-License-Identifier: MIT */
/*
 * Arming and releasing guest RAM.
 *
 *   protect_prepare()  while the guest runs: register with userfaultfd
 *   protect_arm()      inside the pause: write-protect everything
 *   protect_open()     unprotect what is saved
 *   protect_release()  unregister: nothing is protected, everybody is woken
 *   protect_close()    after the threads that read guest RAM have ended
 */
#ifndef SNAP_PROTECT_H
#define SNAP_PROTECT_H

#include "guest.h"

/** 0 or -errno with the text set; then nothing stays registered. */
int protect_prepare(struct guest *g);

/** 0 or -errno with the text set; then a part may be protected: release. */
int protect_arm(struct guest *g);

/**
 * Unprotect saved pages of @r and wake who waits there.  Pages become OPEN.
 * 0; or -EAGAIN while the kernel changes mappings: an event has to be read
 * first, repeat later; or -errno with the text set.  Pages that were unmapped
 * meanwhile are passed over.
 */
int protect_open(struct guest *g, struct region *r, struct page_run run);

/** Bytes of RAM that there is something to save of, now: what the image takes
 * at the least if nothing is compressed.  After protect_prepare(). */
uint64_t protect_resident_bytes(struct guest *g);

/** Nothing is protected and everybody is woken.  Safe more than once. */
void protect_release(struct guest *g);

/** Close what reading the guest took, once no thread reads it any more. */
void protect_close(struct guest *g);

#endif

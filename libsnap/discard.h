/* SPDX-License-Identifier: MIT */
/*
 * Memory that the guest drops while it is being saved.
 *
 * How it works.  With EVENT_REMOVE a thread in madvise(MADV_DONTNEED, ...)
 * sleeps until its event is read and then zaps at once (fs/userfaultfd.c:
 * userfaultfd_remove(), userfaultfd_event_wait_completion()).  So the range is
 * saved before the event is read.  Which range that is has to be found out
 * beforehand: the caller sleeps in the system call, whose arguments
 * /proc/PID/task/TID/syscall shows.  discard_save() does this while no fault
 * waits, which is when the next read gives an event.  discard_event() checks
 * every event once it has been read: a page of its range that was not saved is
 * lost and the snapshot fails.
 *
 * munmap() and mremap() report when it is done: what was not saved is lost.
 */
#ifndef SNAP_DISCARD_H
#define SNAP_DISCARD_H

#include <linux/userfaultfd.h>

#include "capture.h"
#include "survey.h"

struct discard {
	struct capture *capture; /* the fault thread's */
	int tasks;		 /* /proc/PID/task */
	unsigned callers; /* threads seen asleep in a call that makes events */
	bool rescuing;	  /* what was saved is to be proven */
	bool unproven;	  /* ... and could not */
	unsigned running; /* threads whose system call could not be seen */
	_Alignas(8) char dirents[4096];
	struct survey survey;
};

/** 0 or -errno with the text set. */
int discard_open(struct discard *d, struct capture *capture);
void discard_close(struct discard *d);

/**
 * Save what threads are about to drop.  Unprotects nothing: the kernel refuses
 * it as long as the event is unread.  d->callers tells how many threads were
 * seen in such calls: an event without a caller is to be looked at again, as
 * the caller is queued a moment before it sleeps.  0: an event may be read; -EAGAIN: no
 * buffer is free, come again; else -errno with the text set.
 */
int discard_save(struct discard *d);

/**
 * An event was read whose thread had not been seen: it may be dropping the
 * memory now.  Save what is not saved of it and prove that it was there to the
 * end of the copy.  0, or -ENODATA with the text set.
 */
int discard_rescue(struct discard *d, const struct uffd_msg *msg);

/** Judge an event that was read.  0, or -ENODATA with the text set. */
int discard_event(struct guest *g, const struct uffd_msg *msg);

#endif

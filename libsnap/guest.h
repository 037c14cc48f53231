/* SPDX-License-Identifier: MIT */
/*
 * The guest under capture: what the threads that protect, copy and unprotect
 * share.
 *
 * Threads: the fault thread and the sweep.  Lock order: unprotect_lock alone.
 * The sweep holds it over each of its unprotects, the fault thread over its
 * look at the queue and the read that follows, because an unprotect wakes
 * waiters: were one woken between the two, the read would return an event that
 * nobody has looked at yet (discard.h).
 */
#ifndef SNAP_GUEST_H
#define SNAP_GUEST_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "bufpool.h"
#include "encode.h"
#include "error.h"
#include "region.h"
#include "residency.h"
#include "stats.h"
#include "target.h"

struct attach;
struct audit;

struct guest {
	pid_t pid; /* 0: this process */
	struct attach *attach;
	int pidfd;  /* of another process: readable when it has ended */
	int mem_fd; /* its /proc/PID/mem, bound to the address space */
	uint64_t attach_ns;

	struct region_table regions;
	int uffd;
	int fdinfo;	   /* of uffd, for the count of waiting faults */
	uint64_t features; /* of userfaultfd, enabled */
	struct residency residency;
	struct target target;
	struct stats stats;

	struct audit *audit; /* NULL: none */
	struct bufpool *pool;
	struct encoder *encoder;
	struct failure_sink sink;

	pthread_mutex_t unprotect_lock;
	_Atomic uint64_t unsaved; /* pages neither saved nor being skipped */
	int all_saved_fd;	  /* readable once unsaved is 0 */
	atomic_bool armed;	  /* the snapshot point has been reached */
	atomic_bool stop;	  /* give up: nothing more is captured */
	int stop_fd;		  /* readable when the fault thread is to end */
	_Atomic uint64_t last_fault_ns;
	_Atomic uint64_t fault_since_ns; /* the oldest unanswered; 0: none */
};

/** -ESRCH, with a text that says what became of the process. */
static inline int guest_gone(const struct guest *g)
{
	return error_set(-ESRCH, SNAP_FAILURE_GONE,
			 "process %d ended, or replaced its program by exec, "
			 "before its memory was saved",
			 (int)g->pid);
}

/** @err of the page map, with a text. */
static inline int guest_unreadable(const struct guest *g, int err)
{
	return err == -ESRCH && g->pid ? guest_gone(g)
				       : error_sys(err, SNAP_FAILURE_INTERNAL,
						   "cannot read the page map");
}

static inline bool guest_stopping(const struct guest *g)
{
	return atomic_load_explicit(&g->stop, memory_order_acquire);
}

/* Whether discards must be saved: between the snapshot point and its end. */
static inline bool guest_capturing(const struct guest *g)
{
	return atomic_load_explicit(&g->armed, memory_order_acquire) &&
	       !guest_stopping(g);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The bounded pool of buffers between the guest and the disk: the back-pressure.
 *
 * How it works.  All buffers are made and touched once, in one mapping, before
 * the pause.  A buffer has room for one frame: HEADER_ROOM bytes right before
 * PAYLOAD_ROOM bytes, so that a frame's header and its pages are written in
 * one piece.  It goes around:
 *
 *   free -> capture fills it -> encode -> writer -> free
 *
 * When few are free the sweep has to wait (it may not take the last ones) while
 * faults are still served; when none is free the faults wait too, in order.
 * The compressor's output buffers are a part of the pool that nobody else may
 * take, so a full pool cannot starve the threads that empty it.
 */
#ifndef SNAP_BUFPOOL_H
#define SNAP_BUFPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "util/util.h"

#define BUF_PAYLOAD_ROOM BLOCK_BYTES
#define BUF_HEADER_ROOM (16 * KIB)
#define BUF_ROOM (BUF_HEADER_ROOM + BUF_PAYLOAD_ROOM)

/** Extents that fit a header even when the zero test splits every page off:
 * capture stops at BUF_EXTENTS_CAPTURE, encode may grow to FRAME_EXTENTS_MAX. */
#define BUF_EXTENTS_CAPTURE 480

/** One frame on its way from the guest to the file. */
struct buf {
	struct buf *next; /**< in whatever queue it is */
	uint8_t *payload; /**< BUF_PAYLOAD_ROOM bytes, page aligned */

	/** What capture put in: pages back to back in payload, in the order
	 * of the extents of kind FRAME_DATA; FRAME_ABSENT extents have no
	 * bytes. */
	size_t payload_len;
	unsigned extent_count;
	struct frame_extent extents[FRAME_EXTENTS_MAX];

	/** What encode made of it: a whole frame, padded to 4 KiB. */
	uint8_t *frame;
	size_t frame_len;
	struct index_entry entry; /**< all but .offset, which writer fills */

	bool output; /**< one of the compressor's own */
};

struct bufpool;

/**
 * Make a pool of @max_bytes in all, @outputs of its buffers, but half of them
 * at most, kept for compression.  Memory is touched here, not later.
 * Returns 0, -EINVAL (too small), -ENOMEM, with the text set.
 */
int bufpool_create(struct bufpool **out, size_t max_bytes, unsigned outputs);
/** Free it; nobody may hold a buffer any more.  NULL is fine. */
void bufpool_destroy(struct bufpool *p);

/** The one mapping that holds all payloads, for io_uring to register. */
void bufpool_memory(const struct bufpool *p, void **addr, size_t *len);

/** Ordinary buffers in all. */
unsigned bufpool_count(const struct bufpool *p);

/** Ordinary buffers that nobody holds now. */
unsigned bufpool_free_count(struct bufpool *p);

/** Buffers of either kind that somebody holds now. */
unsigned bufpool_lent(struct bufpool *p);

/** How long and how often somebody waited. */
struct bufpool_waits {
	uint64_t sweep_ns;
	uint64_t fault_ns;
	uint64_t faults;
};
void bufpool_get_waits(struct bufpool *p, struct bufpool_waits *w);

/**
 * A buffer for the background: waits while only the reserve (a quarter of the
 * pool, at least one) is free or a fault waits.  NULL after bufpool_close().
 */
struct buf *bufpool_get_sweep(struct bufpool *p);

/** The same without waiting: NULL when there is none. */
struct buf *bufpool_try_get_sweep(struct bufpool *p);

/**
 * A buffer for the fault thread, without waiting: NULL when none is free, and
 * then bufpool_fd() becomes readable once when one is.
 */
struct buf *bufpool_try_get_fault(struct bufpool *p);

/** An eventfd for the fault thread's poll(); the thread reads it. */
int bufpool_fd(const struct bufpool *p);

/** Tell the pool that @n faults began (+) or ended (-) waiting for it. */
void bufpool_fault_waiting(struct bufpool *p, int n);

/** An output buffer for a compressor thread; waits.  NULL after close. */
struct buf *bufpool_get_output(struct bufpool *p);

/** Back to where it came from, emptied. */
void bufpool_put(struct bufpool *p, struct buf *b);

/** Wake everybody who waits, with NULL, for ever. */
void bufpool_close(struct bufpool *p);

#endif

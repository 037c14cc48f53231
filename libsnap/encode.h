/* SPDX-License-Identifier: MIT */
/*
 * Turns captured buffers into frames: zero test, zstd, checksum, header.
 *
 * Worker threads take buffers from a FIFO in any order, one compression context
 * each, all memory taken before the pause.  A frame is built in the buffer
 * itself when it is stored as it is, in one of the pool's output buffers when
 * zstd makes it smaller; the other buffer goes back to the pool at once.
 */
#ifndef SNAP_ENCODE_H
#define SNAP_ENCODE_H

#include "bufpool.h"
#include "error.h"
#include "libsnap.h"

struct encoder;
struct writer;

struct encode_options {
	struct bufpool *pool;
	struct writer *writer; /**< where frames go */
	enum snap_compress compress;
	int level;
	unsigned workers; /**< not 0 */
	uint8_t snapshot_id[16];
	struct failure_sink sink;
};

/** Output buffers that @workers compressors want in the pool. */
unsigned encode_outputs(enum snap_compress compress, unsigned workers);

/** Start the workers.  Returns 0 or -errno with the text set. */
int encode_start(struct encoder **out, const struct encode_options *opts);

/** Hand a captured buffer over, with at most BUF_EXTENTS_CAPTURE extents.  Never
 * blocks.  Any thread. */
void encode_submit(struct encoder *e, struct buf *b);

/** Wait until everything submitted is with the writer or, after a failure that
 * the sink was told of, back in the pool. */
void encode_drain(struct encoder *e);

/** Pages found all zero so far.  Any thread. */
uint64_t encode_zero_pages(const struct encoder *e);

/** Pages with data so far (not zero).  Any thread. */
uint64_t encode_data_pages(const struct encoder *e);

/** Stop the workers, give what is queued back to the pool, free.  Waits for
 * frames being made, and these for output buffers: the writer must still be
 * there, or the pool closed.  NULL is fine. */
void encode_stop(struct encoder *e);

/** Whether @len bytes (a multiple of 64) at @p, 64-aligned, are all zero. */
bool encode_is_zero(const void *p, size_t len);

#endif

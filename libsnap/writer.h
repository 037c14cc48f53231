/* SPDX-License-Identifier: MIT */
/*
 * Writes an image: header first, frames as they come, index and footer last.
 *
 * One thread owns the file.  To a regular file it keeps several O_DIRECT writes
 * in flight with io_uring from the pool's registered memory, or uses pwrite()
 * where io_uring is forbidden; to a pipe it writes front to back and can be
 * stopped while the reader sleeps.  How bytes leave is in writer_uring.c (the
 * only file that includes liburing), writer_pwrite.c and writer_stream.c; names,
 * space and durability of a file are in output.c.
 */
#ifndef SNAP_WRITER_H
#define SNAP_WRITER_H

#include "bufpool.h"
#include "error.h"
#include "libsnap.h"

struct writer;

struct writer_options {
	/** The image's name, or NULL for @fd. */
	const char *path;
	/** A stream; -1 with @path NULL throws everything away. */
	int fd;
	unsigned flags;	    /**< enum snap_flags */
	uint64_t bandwidth; /**< bytes a second, 0 no limit */
	uint64_t reserve;   /**< bytes to preallocate; the most it can become */
	struct bufpool *pool;
	struct failure_sink sink;
};

/**
 * Check and open the output under a temporary name beside @path, reserve its
 * space, probe io_uring and start the thread.  Returns 0 or -errno with the
 * text set, class OUTPUT for a full or failing disk and for a name that exists,
 * is a directory, a FIFO (-EINVAL; a stream goes to @fd) or may not be written.
 */
int writer_open(struct writer **out, const struct writer_options *opts);

/**
 * Hand over the image's head (header and device states, padded); to be called
 * once, before the first frame.  Takes @head, which was malloc()ed.  Never
 * blocks.
 */
void writer_head(struct writer *w, void *head, size_t len);

/** Hand a frame over, all but entry.offset filled; the buffer goes back to the pool when it is written or
 * when writing has failed.  Never blocks.  Any thread. */
void writer_submit(struct writer *w, struct buf *b);

/** What the tail of the image needs to know. */
struct writer_totals {
	uint8_t snapshot_id[16];
	uint64_t pages_total;
	uint64_t pages_data;
	uint64_t pages_zero;
	uint64_t pages_absent;
};

/**
 * After the last frame: wait for all writes, append index and footer, cut the
 * file to its length, fsync, rename to the asked name, fsync the directory.
 * Blocks; writer_cancel() ends it.  Returns 0, -ECANCELED or the first failure,
 * also one of an earlier frame, with the text set; then nothing is left under
 * the asked name.
 *
 * The sink hears of every failure but a cancel, once and on the writer's thread,
 * also while the caller waits here: it may not take a lock that the caller
 * holds.
 */
int writer_finish(struct writer *w, const struct writer_totals *totals);

/** Give up: later writes are dropped, their buffers returned, and
 * writer_finish() gives -ECANCELED.  Any thread.  Never blocks. */
void writer_cancel(struct writer *w);

/** Stop the thread, remove the temporary file unless finished, free.  NULL is
 * fine. */
void writer_close(struct writer *w);

/** Bytes and write requests given to the kernel so far, and all system calls
 * made for them.  Any thread. */
void writer_counts(const struct writer *w, uint64_t *bytes, uint64_t *writes,
		   uint64_t *syscalls);

#endif

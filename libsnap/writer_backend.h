/* SPDX-License-Identifier: MIT */
/*
 * How the writer's bytes leave: one backend for each kind of output.
 *
 * All calls but wake() are made on the writer's thread.  A frame is handed over
 * with frame() and comes back through done(), perhaps before frame() returns;
 * everything else is written with plain(), which returns when it is written.
 */
#ifndef SNAP_WRITER_BACKEND_H
#define SNAP_WRITER_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bufpool.h"

struct backend;

struct writer_counters {
	atomic_uint_least64_t bytes;
	atomic_uint_least64_t writes;
	atomic_uint_least64_t syscalls;
};

struct backend_ops {
	/** Write b->frame at b->entry.offset. */
	void (*frame)(struct backend *k, struct buf *b);
	/** Write any memory; 0 or -errno. */
	int (*plain)(struct backend *k, const void *data, size_t len,
		     uint64_t offset);
	/** Wait until every frame has come back.  NULL: they always have. */
	void (*drain)(struct backend *k);
	/** Sleep until wake() or until a frame has come back.  NULL: the
	 * writer sleeps on its own condition. */
	void (*sleep)(struct backend *k);
	/** Free; frames in flight are waited for. */
	void (*destroy)(struct backend *k);
};

/** What all backends get from the writer. */
struct backend {
	const struct backend_ops *ops;
	int fd;
	bool direct;  /**< file: O_DIRECT, all in multiples of 4096 */
	int event_fd; /**< readable: woken, or cancelled */
	const atomic_bool *cancelled;
	struct bufpool *pool;
	struct writer_counters *counters;
	/** A frame is written (@err 0) or has failed. */
	void (*done)(void *user_data, struct buf *b, int err);
	void *user_data;
};

/* Each makes a copy of @base and returns 0 or -errno with the text set. */
int backend_null(struct backend **out, const struct backend *base);
int backend_pwrite(struct backend **out, const struct backend *base);
int backend_stream(struct backend **out, const struct backend *base);
/** Also fails with what io_uring_setup() gave, or -EOPNOTSUPP when the ring
 * cannot do what is needed; the caller then takes backend_pwrite(). */
int backend_uring(struct backend **out, const struct backend *base);

/** plain() of a regular file: pwrite() through @bounce (WRITER_BOUNCE bytes,
 * page aligned) where the file is O_DIRECT. */
#define WRITER_BOUNCE (256 * KIB)
int backend_pwrite_plain(struct backend *k, void *bounce, const void *data,
			 size_t len, uint64_t offset);

/**
 * How much of a write of which @done bytes are known to be written remains
 * valid as progress after @n more: a direct write has to start again at a
 * multiple of 4096.  Returns 0 or -EIO when there is no progress for ever.
 */
struct write_progress {
	size_t done;
	unsigned stuck;
};
int backend_progress(const struct backend *k, struct write_progress *p,
		     int64_t n);

static inline void count_syscall(struct backend *k)
{
	atomic_fetch_add_explicit(&k->counters->syscalls, 1,
				  memory_order_relaxed);
}

static inline void count_write(struct backend *k)
{
	atomic_fetch_add_explicit(&k->counters->writes, 1,
				  memory_order_relaxed);
}

/** Whether a ring can be made. */
bool uring_works(void);

#endif

/* SPDX-License-Identifier: MIT */
/* The thread-local text and class of the last failure. */
#ifndef SNAP_ERROR_H
#define SNAP_ERROR_H

#include <stddef.h>

#include "libsnap.h"

#define ERROR_TEXT_MAX 1024

/**
 * Remember the text and class of a failure in this thread and return @err, a
 * negative errno, so that a caller can write
 *	return error_set(-EINVAL, SNAP_FAILURE_USAGE, "...", ...);
 */
int error_set(int err, enum snap_failure failure, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** error_set() with ": strerror(-err)" behind the text. */
int error_sys(int err, enum snap_failure failure, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** error_set(-ENOMEM, INTERNAL, "out of memory for @what"). */
int error_nomem(const char *what);

/** Copies of the thread's current text and class. */
const char *error_text(void);
enum snap_failure error_failure(void);

/** Who is told of a failure on a library thread.  The first one sticks; the
 * text and class are those of the calling thread at the call. */
struct failure_sink {
	void (*fail)(void *user_data, int err);
	void *user_data;
};

static inline void failure_report(const struct failure_sink *sink, int err)
{
	sink->fail(sink->user_data, err);
}

#endif

/* SPDX-License-Identifier: MIT */
/* What a program says on stderr, and the exit code that goes with it. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stddef.h>

#include "libsnap.h"

/** Exit codes, the same for all programs. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_REFUSED = 3,
	EXIT_GONE = 4,
	EXIT_OUTPUT = 5,
	EXIT_IMAGE = 6,
	EXIT_CANCELLED = 7,
};

/** The code of a class of failures. */
enum exit_code exit_code_of(enum snap_failure failure);

/** Say one sentence on stderr; returns @code. */
enum exit_code fail(enum exit_code code, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/** Say what the library's last failed call said; returns the code of its
 * class. */
enum exit_code fail_library(void);

/**
 * Copy a text that may come out of an image into @dst, fit for a terminal:
 * what is not printable ASCII becomes \xNN.  Returns @dst.
 */
char *printable(char *dst, size_t size, const char *text);

#endif

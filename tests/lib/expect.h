/* SPDX-License-Identifier: MIT */
/* Checks of failures: errno, class and text in one line. */
#ifndef TEST_EXPECT_H
#define TEST_EXPECT_H

#include <stddef.h>

#include "libsnap.h"

/** A failure as a caller sees it; fits a pipe from a child. */
struct outcome {
	int err;
	enum snap_failure failure;
	char text[1024];
};

/** What this thread's last call, which returned @err, left behind. */
struct outcome outcome_of(int err);

/** @o must be @err of class @failure, and its text must hold every one of the
 * words in @words, which are separated by '|'. */
void expect_outcome(const struct outcome *o, int err, enum snap_failure failure,
		    const char *words);

/** The same for this thread's last call. */
void expect_error(int got, int err, enum snap_failure failure,
		  const char *words);

/**
 * Run @fn(@arg) in a child as user nobody, who has no capability or, with
 * @trace, CAP_SYS_PTRACE alone.  Skips the test where that is not possible.
 */
struct outcome run_as_nobody(struct outcome (*fn)(void *arg), void *arg,
			     int trace);

#endif

/* SPDX-License-Identifier: MIT */
/* Why something did not work: one sentence and an exit code. */
#ifndef SNAPD_FAILURE_H
#define SNAPD_FAILURE_H

#include "program.h"

#define FAILURE_TEXT_MAX 1024

struct failure {
	enum exit_code code; /**< EXIT_DONE: none */
	char text[FAILURE_TEXT_MAX];
};

/** Set @f, unless it is set: the first reason is the reason.  Returns -1. */
int failure_set(struct failure *f, enum exit_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** Set @f to the library's last failed call.  Returns -1. */
int failure_library(struct failure *f);

#endif

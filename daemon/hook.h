/* SPDX-License-Identifier: MIT */
/* Commands of the operator's that pause, describe and resume a guest. */
#ifndef SNAPD_HOOK_H
#define SNAPD_HOOK_H

#include <stddef.h>

#include "failure.h"

/**
 * Run @command with /bin/sh and SNAPD_PID in its environment, 10 s at most.
 * @out, @len: what it wrote to standard output, to be freed; NULL: that goes
 * where ours goes.  0, or -1 with @f set: it could not be run, took too long,
 * or ended with another code than 0.
 */
int hook_run(const char *command, int pid, void **out, size_t *len,
	     struct failure *f);

#endif

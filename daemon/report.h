/* SPDX-License-Identifier: MIT */
/* The object that --json prints at the end. */
#ifndef SNAPD_REPORT_H
#define SNAPD_REPORT_H

#include <stdint.h>
#include <stdio.h>

#include "failure.h"
#include "libsnap.h"

struct report {
	struct snap *snap; /**< NULL: it did not come to one */
	const struct failure *failure;
	uint64_t pause_us; /**< of the whole pause; 0: the library's own */
};

/** One line to @to.  0, or -1 when it could not be written. */
int report_print(const struct report *r, FILE *to);

#endif

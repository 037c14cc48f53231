/* SPDX-License-Identifier: MIT */
/* Collects what is wrong with all regions into one text. */
#ifndef SNAP_COMPLAINTS_H
#define SNAP_COMPLAINTS_H

#include "error.h"
#include "region.h"

struct complaints {
	int err; /* of the first; 0: none */
	char text[ERROR_TEXT_MAX - 64];
};

/** Add "region NAME (0xSTART-0xEND) ..." and return @err. */
int complain(struct complaints *c, int err, const struct region *r,
	     const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/** 0, or the first one's errno with the whole text set, class REFUSED. */
int complaints_result(const struct complaints *c);

#endif

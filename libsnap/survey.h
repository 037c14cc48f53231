/* SPDX-License-Identifier: MIT */
/*
 * What there is of a stretch of RAM: data, or nothing.
 *
 * A hole of anonymous memory is known to be zero and is never read, and a hole
 * of a memfd must not be: a touch would fill it.
 */
#ifndef SNAP_SURVEY_H
#define SNAP_SURVEY_H

#include "guest.h"

struct survey_piece {
	struct page_run run;
	bool present;
};

/* Zeroed by who makes it.  Of one thread. */
struct survey {
	const struct region *r; /* that the next two are about */
	struct page_run data;	/* of a shared region: known run with data */
	uint64_t data_from;	/* ... and from where on it is known */
	struct residency_run runs[BLOCK_PAGES];

	struct survey_piece pieces[2 * BLOCK_PAGES + 1];
	unsigned count;
};

/** Fill the pieces of @run, which lies in one block; together they are the
 * whole of it.  0 or -errno with the text set. */
int survey_look(struct survey *s, struct guest *g, struct region *r,
		struct page_run run);

#endif

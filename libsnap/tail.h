/* SPDX-License-Identifier: MIT */
/* Collects what the tail of an image says: where each frame is, and how much
 * there is in all. */
#ifndef SNAP_TAIL_H
#define SNAP_TAIL_H

#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "writer.h"

/** Zeroed is empty. */
struct tail {
	struct index_entry *entries;
	size_t count, room;
};

/** Remember a frame.  Returns 0 or -ENOMEM with the text set. */
int tail_add(struct tail *t, const struct index_entry *e);

/**
 * The index and the footer in one piece of *@len bytes that begins at @offset
 * of the image; to be freed.  NULL without memory, with the text set.
 */
void *tail_make(const struct tail *t, const struct writer_totals *totals,
		uint64_t offset, size_t *len);

void tail_free(struct tail *t);

#endif

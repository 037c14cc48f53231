/* SPDX-License-Identifier: MIT */
/* The head of an image, read and checked: regions and device states. */
#ifndef SNAP_IMAGE_HEAD_H
#define SNAP_IMAGE_HEAD_H

#include "format.h"
#include "image_reader.h"

struct image_head {
	struct format_head fixed;
	struct format_region *regions; /* fixed.region_count */
	struct format_state *states;   /* fixed.state_count */
	void **state_data;	       /* the states' bytes */
	uint64_t pages_total;	       /* of all regions */
};

/**
 * Read the head, which begins at @r's place, and leave @r behind it.
 * Returns 0, -EBADMSG, -ENOTSUP (another version), -ENOMEM or what read()
 * gave, with the text set; @h is then empty.
 */
int image_head_read(struct image_head *h, struct image_reader *r);

/** A zeroed one is fine. */
void image_head_free(struct image_head *h);

#endif

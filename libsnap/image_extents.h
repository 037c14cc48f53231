/* SPDX-License-Identifier: MIT */
/* Where every page of an image is: collect extents, prove that they cover each
 * page exactly once, look pages up. */
#ifndef SNAP_IMAGE_EXTENTS_H
#define SNAP_IMAGE_EXTENTS_H

#include "format.h"
#include "image_head.h"

/** A run of pages of one kind, in the order of the file. */
struct image_extent {
	uint64_t first_page; /* within its region */
	uint64_t frame_at;   /* offset of its frame in the file */
	uint32_t count;
	uint32_t frame;	       /* number of its frame */
	uint32_t payload_page; /* FRAME_DATA: where in the frame's raw bytes */
	uint16_t region;
	uint16_t kind; /* enum frame_kind */
};

/** Zeroed is empty. */
struct image_extents {
	struct image_extent *items; /* in the order of the file */
	uint32_t count, room;
	struct format_totals totals;

	uint32_t *order; /* numbers of items by (region, first page) */
	uint32_t *first; /* place in @order of each region; one more for
			  * the end */
};

/** Which frame extents belong to. */
struct image_place {
	const char *path; /* for texts */
	uint64_t at;	  /* offset in the file */
	uint32_t frame;	  /* number */
};

/** Add the @n extents of a frame.  Returns 0, -EBADMSG (no such region or
 * page), -ENOMEM. */
int image_extents_add(struct image_extents *x, const struct image_head *h,
		      const struct frame_extent *extents, uint32_t n,
		      const struct image_place *place);

/** Sort, and check that each page of each region is there exactly once.
 * @end: the offset to name where a page is missing. */
int image_extents_finish(struct image_extents *x, const struct image_head *h,
			 const char *path, uint64_t end);

/** The place in x->order of the extent that holds @page of @region, both of
 * which must exist.  After image_extents_finish(). */
uint32_t image_extents_find(const struct image_extents *x, uint32_t region,
			    uint64_t page);

void image_extents_free(struct image_extents *x);

#endif

/* SPDX-License-Identifier: MIT */
/* The read side of images: what an open one consists of. */
#ifndef SNAP_IMAGE_H
#define SNAP_IMAGE_H

#include <pthread.h>

#include "image_extents.h"
#include "image_frame.h"
#include "image_head.h"
#include "libsnap.h"

/*
 * Everything is immutable after snap_image_open() but the cache.
 */
struct snap_image {
	int fd;
	char *path;
	uint64_t size;
	struct image_head head;
	struct image_extents extents;
	struct image_frame *frames;
	uint32_t frame_count;

	pthread_mutex_t lock;	      /* of the two below */
	struct frame_decoder decoder; /* made by the first read */
	uint64_t cached; /* number of the frame in decoder.raw, plus one; 0:
			  * none */
};

/** Whether there is such a region.  0, or -ENOENT with the text set. */
int image_check_region(const struct snap_image *img, uint32_t index);

#endif

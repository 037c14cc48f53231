/* SPDX-License-Identifier: MIT */
/* Frames of an image: the header checked, the payload decoded. */
#ifndef SNAP_IMAGE_FRAME_H
#define SNAP_IMAGE_FRAME_H

#include "format.h"
#include "image_extents.h"

/** What is kept of a frame. */
struct image_frame {
	uint64_t at; /* offset of its header in the file */
	uint64_t payload_checksum;
	uint32_t header_room; /* padded length of the header */
	uint32_t raw_len, stored_len;
	uint32_t first_extent, extent_count; /* in image_extents.items */
	uint16_t codec;
};

/** Memory for one frame at a time; each thread has its own. */
struct frame_decoder {
	void *zstd;	 /* ZSTD_DCtx */
	uint8_t *stored; /* FRAME_RAW_MAX bytes: as in the file */
	uint8_t *raw;	 /* FRAME_RAW_MAX bytes: RAM */
};

/** Longest header, and its extents. */
#define FRAME_HEADER_MAX 16384u
struct frame_header {
	uint8_t bytes[FRAME_HEADER_MAX];
	struct format_frame fixed;
	struct frame_extent extents[FRAME_EXTENTS_MAX];
};

/** Returns 0 or -ENOMEM; then nothing needs to be freed. */
int frame_decoder_init(struct frame_decoder *d);
void frame_decoder_free(struct frame_decoder *d);

/**
 * Check the whole header in @hd->bytes, add its extents to @x and fill @f.
 * @place: where it begins.  Returns 0, -EBADMSG or -ENOMEM with the text set.
 */
int image_frame_take(struct image_frame *f, struct frame_header *hd,
		     struct image_extents *x, const struct image_head *h,
		     const struct image_place *place);

/**
 * Check and decode the payload, align_up(stored_len) bytes at @stored, into
 * f->raw_len bytes at @dst, which may be @stored when nothing is compressed.
 * NULL or a static text that says what is wrong.
 */
const char *frame_decode(struct frame_decoder *d, const struct image_frame *f,
			 const void *stored, void *dst);

/** Padded bytes of the payload in the file. */
uint32_t frame_stored_room(const struct image_frame *f);

/**
 * Read the frame of @fd and decode it into @dst.  Returns 0, -EBADMSG, -EFAULT
 * (@dst is not writable) or what pread() gave, with the text set.
 */
int frame_load(struct frame_decoder *d, const struct image_frame *f, int fd,
	       const char *path, void *dst);

#endif

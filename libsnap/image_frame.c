// SPDX-License-Identifier: MIT
/* Frames of an image: the header checked, the payload decoded. */
#include "image_frame.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "error.h"
#include "util/util.h"

_Static_assert(FORMAT_FRAME_FIXED + FRAME_EXTENTS_MAX * 16 <= FRAME_HEADER_MAX,
	       "the longest header does not fit");

int frame_decoder_init(struct frame_decoder *d)
{
	d->zstd = ZSTD_createDCtx();
	d->stored = malloc(FRAME_RAW_MAX);
	d->raw = malloc(FRAME_RAW_MAX);
	if (d->zstd && d->stored && d->raw)
		return 0;
	frame_decoder_free(d);
	return error_nomem("decoding the image");
}

void frame_decoder_free(struct frame_decoder *d)
{
	ZSTD_freeDCtx(d->zstd);
	free(d->stored);
	free(d->raw);
	memset(d, 0, sizeof(*d));
}

int image_frame_take(struct image_frame *f, struct frame_header *hd,
		     struct image_extents *x, const struct image_head *h,
		     const struct image_place *place)
{
	const char *wrong =
		format_get_frame(hd->bytes, &hd->fixed, hd->extents);

	if (!wrong &&
	    hd->fixed.snapshot_tag != format_tag(h->fixed.snapshot_id))
		wrong = "this frame is of another snapshot";
	if (wrong)
		return image_damaged(place->path, place->at, "%s", wrong);
	*f = (struct image_frame){
		.at = place->at,
		.payload_checksum = hd->fixed.payload_checksum,
		.header_room = (uint32_t)format_frame_header_room(
			hd->fixed.extent_count),
		.raw_len = (uint32_t)hd->fixed.raw_len,
		.stored_len = (uint32_t)hd->fixed.stored_len,
		.first_extent = x->count,
		.extent_count = hd->fixed.extent_count,
		.codec = (uint16_t)hd->fixed.codec,
	};
	return image_extents_add(x, h, hd->extents, hd->fixed.extent_count,
				 place);
}

uint32_t frame_stored_room(const struct image_frame *f)
{
	return (uint32_t)align_up(f->stored_len, FORMAT_ALIGN);
}

const char *frame_decode(struct frame_decoder *d, const struct image_frame *f,
			 const void *stored, void *dst)
{
	const uint8_t *s = stored;
	size_t n;

	if (format_checksum(s, f->stored_len) != f->payload_checksum)
		return "a frame's payload does not match its checksum";
	if (!image_is_zero(s + f->stored_len,
			   frame_stored_room(f) - f->stored_len))
		return "the padding behind a frame is not zero";
	if (f->codec == FRAME_CODEC_NONE) {
		if (dst != stored)
			memcpy(dst, stored, f->raw_len);
		return NULL;
	}
	n = ZSTD_decompressDCtx(d->zstd, dst, f->raw_len, stored,
				f->stored_len);
	if (ZSTD_isError(n))
		return "a frame cannot be decompressed";
	if (n != f->raw_len)
		return "a frame has another length when decompressed";
	return NULL;
}

int frame_load(struct frame_decoder *d, const struct image_frame *f, int fd,
	       const char *path, void *dst)
{
	void *stored = f->codec == FRAME_CODEC_NONE ? dst : d->stored;
	uint64_t at = f->at + f->header_room;
	const char *wrong;
	int err;

	err = image_pread(fd, path, stored, frame_stored_room(f), at);
	if (err)
		return err;
	wrong = frame_decode(d, f, stored, dst);
	return wrong ? image_damaged(path, at, "%s", wrong) : 0;
}

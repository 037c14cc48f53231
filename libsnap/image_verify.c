// SPDX-License-Identifier: MIT
/*
 * Verifies an image front to back, as a stream.
 *
 * How it works.  Every frame is decoded and remembered.  Behind the last one
 * only one index and one footer can stand that agree with what was seen: they
 * are made anew and compared byte by byte.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "image_extents.h"
#include "image_frame.h"
#include "image_head.h"
#include "libsnap.h"
#include "sys.h"
#include "util/util.h"

#define ENTRIES_STEP 1024u

struct verifier {
	struct image_reader reader;
	struct image_head head;
	struct image_extents extents;
	struct frame_decoder decoder;
	struct frame_header header;
	struct index_entry *entries; /* of the frames seen */
	uint32_t count, room;
};

static int add_entry(struct verifier *v, const struct image_frame *f,
		     const struct format_totals *before)
{
	const struct format_totals *now = &v->extents.totals;
	struct index_entry *grown;

	if (v->count == v->room) {
		grown = realloc(v->entries, ((size_t)v->room + ENTRIES_STEP) *
						    sizeof(*grown));
		if (!grown)
			return error_nomem("the image's index");
		v->entries = grown;
		v->room += ENTRIES_STEP;
	}
	v->entries[v->count++] = (struct index_entry){
		.offset = f->at,
		.length = f->header_room + frame_stored_room(f),
		.header_checksum = v->header.fixed.header_checksum,
		.pages_data = (uint32_t)(now->pages_data - before->pages_data),
		.pages_zero = (uint32_t)(now->pages_zero - before->pages_zero),
	};
	return 0;
}

/* The frame at @at, whose first FORMAT_ALIGN bytes are in the header. */
static int verify_frame(struct verifier *v, uint64_t at)
{
	const struct image_place place = {v->reader.path, at, v->count};
	struct format_totals before = v->extents.totals;
	struct image_frame f;
	const char *wrong;
	size_t room;
	int err;

	wrong = format_get_frame_fixed(v->header.bytes, &v->header.fixed);
	if (wrong)
		return image_damaged(place.path, at, "%s", wrong);
	room = format_frame_header_room(v->header.fixed.extent_count);
	err = image_reader_get(&v->reader, v->header.bytes + FORMAT_ALIGN,
			       room - FORMAT_ALIGN);
	if (!err)
		err = image_frame_take(&f, &v->header, &v->extents, &v->head,
				       &place);
	if (!err)
		err = image_reader_get(&v->reader, v->decoder.stored,
				       frame_stored_room(&f));
	if (err)
		return err;
	wrong = frame_decode(&v->decoder, &f, v->decoder.stored,
			     v->decoder.raw);
	if (wrong)
		return image_damaged(place.path, at + room, "%s", wrong);
	return add_entry(v, &f, &before);
}

static int compare(const struct verifier *v, const uint8_t *seen,
		   const uint8_t *due, size_t len, uint64_t at)
{
	size_t i = 0;

	if (!memcmp(seen, due, len))
		return 0;
	while (seen[i] == due[i])
		i++;
	return image_damaged(v->reader.path, at + i,
			     "the %s does not say what the frames say",
			     i < len - FORMAT_FOOTER_SIZE ? "index" : "footer");
}

/* Index and footer, whose first FORMAT_ALIGN bytes are in the header. */
static int verify_tail(struct verifier *v, uint64_t at)
{
	size_t index_len = format_index_size(v->count);
	size_t len = index_len + FORMAT_FOOTER_SIZE;
	struct format_footer footer = {
		.snapshot_tag = format_tag(v->head.fixed.snapshot_id),
		.index_offset = at,
		.index_length = index_len,
		.image_length = at + len,
	};
	uint8_t *due = malloc(len), *seen = malloc(len);
	int err = 0;

	if (!due || !seen) {
		err = error_nomem("the image's index");
	} else {
		footer.index_checksum = format_put_index(
			due, v->entries, v->count, &v->extents.totals);
		format_put_footer(due + index_len, &footer);
		memcpy(seen, v->header.bytes, FORMAT_ALIGN);
		err = image_reader_get(&v->reader, seen + FORMAT_ALIGN,
				       len - FORMAT_ALIGN);
	}
	if (!err)
		err = compare(v, seen, due, len, at);
	free(due);
	free(seen);
	return err;
}

static int verify(struct verifier *v)
{
	uint64_t at;
	int err = frame_decoder_init(&v->decoder);

	if (!err)
		err = image_head_read(&v->head, &v->reader);
	while (!err) {
		at = v->reader.at;
		err = image_reader_get(&v->reader, v->header.bytes,
				       FORMAT_ALIGN);
		if (err || format_is_index(v->header.bytes))
			break;
		err = verify_frame(v, at);
	}
	if (!err)
		err = verify_tail(v, at);
	if (!err)
		err = image_reader_end(&v->reader);
	if (!err)
		err = image_extents_finish(&v->extents, &v->head,
					   v->reader.path, at);
	return err;
}

static int open_source(struct image_reader *r, const char *path)
{
	r->stream = true;
	if (!strcmp(path, "-")) {
		r->path = "standard input";
		r->fd = 0;
		return 0;
	}
	r->path = path;
	r->fd = sys_open(path, O_RDONLY, 0);
	if (r->fd < 0)
		return error_sys(r->fd, SNAP_FAILURE_INTERNAL, "cannot open %s",
				 path);
	return 0;
}

int snap_image_verify(const char *path)
{
	struct verifier *v;
	int err;

	if (!path)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "snap_image_verify() needs a path");
	v = calloc(1, sizeof(*v));
	if (!v)
		return error_nomem("verifying an image");
	err = open_source(&v->reader, path);
	if (!err) {
		err = verify(v);
		if (v->reader.path == path)
			sys_close(v->reader.fd);
	}
	frame_decoder_free(&v->decoder);
	image_extents_free(&v->extents);
	image_head_free(&v->head);
	free(v->entries);
	free(v);
	return err;
}

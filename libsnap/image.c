// SPDX-License-Identifier: MIT
/* Opens images: the head, the footer, the index and every frame's header are
 * read and must agree; no page is read yet. */
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "sys.h"
#include "util/util.h"

static int open_file(struct snap_image *img)
{
	struct stat st;
	int err;

	/* Not to wait for the writer of a FIFO, which is refused below. */
	img->fd = sys_open(img->path, O_RDONLY | O_NONBLOCK, 0);
	if (img->fd < 0)
		return error_sys(img->fd, SNAP_FAILURE_INTERNAL,
				 "cannot open %s", img->path);
	err = sys_fstat(img->fd, &st);
	if (err)
		return error_sys(err, SNAP_FAILURE_INTERNAL, "cannot stat %s",
				 img->path);
	if (S_ISDIR(st.st_mode))
		return error_set(-EISDIR, SNAP_FAILURE_USAGE,
				 "%s is a directory, not an image", img->path);
	if (!S_ISREG(st.st_mode))
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "%s is not a regular file; a stream can only "
				 "be verified, or stored and then opened",
				 img->path);
	img->size = (uint64_t)st.st_size;
	if (!img->size)
		return image_incomplete(img->path, 0, "the file is empty");
	return 0;
}

static int read_footer(struct snap_image *img, struct format_footer *f)
{
	uint64_t head = img->head.fixed.head_length, at;
	uint8_t bytes[FORMAT_FOOTER_SIZE];
	const char *wrong;
	int err;

	if (img->size < head + FORMAT_ALIGN + FORMAT_FOOTER_SIZE ||
	    img->size % FORMAT_ALIGN)
		return image_incomplete(img->path, img->size,
					"it ends before a footer");
	at = img->size - FORMAT_FOOTER_SIZE;
	err = image_pread(img->fd, img->path, bytes, sizeof(bytes), at);
	if (err)
		return err;
	if (!format_is_footer(bytes))
		return image_incomplete(img->path, at,
					"there is no footer; it was never "
					"finished, or was cut");
	wrong = format_get_footer(bytes, f);
	if (!wrong &&
	    f->snapshot_tag != format_tag(img->head.fixed.snapshot_id))
		wrong = "the footer is of another snapshot";
	if (!wrong && (f->image_length != img->size || f->index_offset < head))
		wrong = "the footer does not fit the file";
	return wrong ? image_damaged(img->path, at, "%s", wrong) : 0;
}

static int read_index(struct snap_image *img, const struct format_footer *f,
		      void **index, struct format_totals *totals)
{
	struct image_reader r = {
		.fd = img->fd,
		.path = img->path,
		.at = f->index_offset,
		.size = img->size,
	};
	const char *wrong;
	uint64_t count;
	int err = image_reader_get_new(&r, f->index_length, index);

	if (err)
		return err;
	wrong = format_get_index(*index, f->index_length, f->index_checksum,
				 totals);
	if (!wrong)
		wrong = format_get_index_count(*index, f->index_length, &count);
	if (!wrong && count > UINT32_MAX)
		wrong = "an impossible number of frames";
	if (wrong)
		return image_damaged(img->path, f->index_offset, "%s", wrong);
	img->frame_count = (uint32_t)count;
	return 0;
}

/* Read the header of frame @n, which begins where the one before ended. */
static int read_header(struct snap_image *img, struct frame_header *hd,
		       const struct image_place *place, uint64_t end)
{
	uint64_t at = place->at;
	const char *wrong;
	size_t room;
	int err;

	if (end - at < FORMAT_ALIGN)
		return image_damaged(img->path, at, "a frame has no room");
	err = image_pread(img->fd, img->path, hd->bytes, FORMAT_ALIGN, at);
	if (err)
		return err;
	wrong = format_get_frame_fixed(hd->bytes, &hd->fixed);
	if (!wrong && format_frame_size(hd->fixed.extent_count,
					hd->fixed.stored_len) > end - at)
		wrong = "a frame does not end before the index";
	if (wrong)
		return image_damaged(img->path, at, "%s", wrong);
	room = format_frame_header_room(hd->fixed.extent_count);
	return image_pread(img->fd, img->path, hd->bytes + FORMAT_ALIGN,
			   room - FORMAT_ALIGN, at + FORMAT_ALIGN);
}

/* What the index says of a frame must be what its header says. */
static const char *compare_entry(const struct index_entry *e,
				 const struct image_frame *f,
				 const struct format_frame *fixed,
				 const struct format_totals *pages)
{
	if (e->offset != f->at ||
	    e->length != f->header_room + frame_stored_room(f))
		return "the index has this frame in another place";
	if (e->header_checksum != fixed->header_checksum)
		return "this is not the frame that the index means";
	if (e->pages_data != pages->pages_data ||
	    e->pages_zero != pages->pages_zero)
		return "the index counts other pages than this frame has";
	return NULL;
}

static int read_frames(struct snap_image *img, const void *index, uint64_t end,
		       struct frame_header *hd)
{
	struct image_place place = {
		.path = img->path,
		.at = img->head.fixed.head_length,
	};
	struct format_totals before, now, *t = &img->extents.totals;
	struct index_entry entry;
	const char *wrong;
	int err;

	for (; place.frame < img->frame_count; place.frame++) {
		struct image_frame *f = &img->frames[place.frame];

		before = *t;
		err = read_header(img, hd, &place, end);
		if (!err)
			err = image_frame_take(f, hd, &img->extents, &img->head,
					       &place);
		if (err)
			return err;
		now.pages_data = t->pages_data - before.pages_data;
		now.pages_zero = t->pages_zero - before.pages_zero;
		format_get_entry(index, place.frame, &entry);
		wrong = compare_entry(&entry, f, &hd->fixed, &now);
		if (wrong)
			return image_damaged(img->path, place.at, "%s", wrong);
		place.at += entry.length;
	}
	if (place.at != end)
		return image_damaged(img->path, place.at,
				     "the index does not know what is here");
	return 0;
}

static int read_body(struct snap_image *img, const void *index, uint64_t end)
{
	struct frame_header *hd = malloc(sizeof(*hd));
	int err;

	img->frames =
		calloc((size_t)img->frame_count + 1, sizeof(*img->frames));
	if (!hd || !img->frames)
		err = error_nomem("the frames of the image");
	else
		err = read_frames(img, index, end, hd);
	free(hd);
	if (err)
		return err;
	return image_extents_finish(&img->extents, &img->head, img->path, end);
}

static int read_all(struct snap_image *img)
{
	struct image_reader r = {
		.fd = img->fd,
		.path = img->path,
		.size = img->size,
	};
	struct format_totals totals;
	struct format_footer footer;
	void *index = NULL;
	int err = image_head_read(&img->head, &r);

	if (!err)
		err = read_footer(img, &footer);
	if (!err)
		err = read_index(img, &footer, &index, &totals);
	if (!err)
		err = read_body(img, index, footer.index_offset);
	if (!err && memcmp(&totals, &img->extents.totals, sizeof(totals)))
		err = image_damaged(img->path, footer.index_offset,
				    "the index counts other pages in all than "
				    "the frames have");
	free(index);
	return err;
}

int snap_image_open(struct snap_image **out, const char *path)
{
	struct snap_image *img;
	int err;

	if (!out || !path)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "snap_image_open() needs a path and a place "
				 "for the image");
	img = calloc(1, sizeof(*img));
	if (!img)
		return error_nomem("an image");
	img->fd = -1;
	pthread_mutex_init(&img->lock, NULL);
	img->path = strdup(path);
	err = img->path ? open_file(img) : error_nomem("an image");
	if (!err)
		err = read_all(img);
	if (err) {
		snap_image_close(img);
		return err;
	}
	*out = img;
	return 0;
}

void snap_image_close(struct snap_image *img)
{
	if (!img)
		return;
	frame_decoder_free(&img->decoder);
	free(img->frames);
	image_extents_free(&img->extents);
	image_head_free(&img->head);
	free(img->path);
	pthread_mutex_destroy(&img->lock);
	if (img->fd >= 0)
		sys_close(img->fd);
	free(img);
}

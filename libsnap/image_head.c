// SPDX-License-Identifier: MIT
/* The head of an image, read and checked: regions and device states. */
#include "image_head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "libsnap.h"
#include "util/util.h"

static int read_prologue(struct image_head *h, struct image_reader *r,
			 void *prologue)
{
	const char *wrong;
	int err = image_reader_get(r, prologue, FORMAT_ALIGN);

	if (err)
		return err;
	wrong = format_get_prologue(prologue, &h->fixed);
	if (!wrong)
		return 0;
	if (h->fixed.version && h->fixed.version != FORMAT_VERSION)
		return error_set(-ENOTSUP, SNAP_FAILURE_IMAGE,
				 "%s: format version %u is unknown, this "
				 "library reads version %u",
				 r->path, h->fixed.version, FORMAT_VERSION);
	return image_damaged(r->path, 0, "%s", wrong);
}

/* Regions and states out of the checked tables. */
static int decode_tables(struct image_head *h, const void *tables)
{
	uint32_t i;

	h->regions = calloc(h->fixed.region_count, sizeof(*h->regions));
	h->states = calloc(h->fixed.state_count + 1, sizeof(*h->states));
	h->state_data =
		calloc(h->fixed.state_count + 1, sizeof(*h->state_data));
	if (!h->regions || !h->states || !h->state_data)
		return error_nomem("the image's tables");
	for (i = 0; i < h->fixed.region_count; i++) {
		format_get_region(tables, &h->fixed, i, &h->regions[i]);
		h->pages_total += h->regions[i].length >> PAGE_SHIFT;
	}
	for (i = 0; i < h->fixed.state_count; i++)
		format_get_state(tables, &h->fixed, i, &h->states[i]);
	return 0;
}

/* The tables begin with the prologue, which has been read. */
static int read_tables(struct image_head *h, struct image_reader *r,
		       const void *prologue)
{
	uint64_t padded = align_up(h->fixed.table_length, FORMAT_ALIGN);
	const char *wrong;
	void *rest = NULL;
	uint8_t *tables;
	int err = image_reader_get_new(r, padded - FORMAT_ALIGN, &rest);

	if (err)
		return err;
	tables = realloc(rest, padded);
	if (!tables) {
		free(rest);
		return error_nomem("the image's tables");
	}
	memmove(tables + FORMAT_ALIGN, tables, padded - FORMAT_ALIGN);
	memcpy(tables, prologue, FORMAT_ALIGN);
	wrong = format_check_tables(tables, &h->fixed);
	if (!wrong && !image_is_zero(tables + h->fixed.table_length,
				     padded - h->fixed.table_length))
		wrong = "the padding behind the tables is not zero";
	if (wrong)
		err = image_damaged(r->path, 0, "%s", wrong);
	else
		err = decode_tables(h, tables);
	free(tables);
	return err;
}

static int read_state(struct image_head *h, struct image_reader *r, uint32_t i)
{
	struct format_state *s = &h->states[i];
	uint64_t at = r->at, padded = align_up(s->length, FORMAT_ALIGN);
	uint8_t *data;
	void *mem;
	int err = image_reader_get_new(r, padded, &mem);

	if (err)
		return err;
	h->state_data[i] = data = mem;
	s->data = data;
	if (format_checksum(data, s->length) != s->checksum)
		return image_damaged(r->path, at,
				     "device state %s does not match its "
				     "checksum",
				     s->name);
	if (!image_is_zero(data + s->length, padded - s->length))
		return image_damaged(r->path, at + s->length,
				     "the padding behind device state %s is "
				     "not zero",
				     s->name);
	return 0;
}

int image_head_read(struct image_head *h, struct image_reader *r)
{
	uint8_t prologue[FORMAT_ALIGN];
	uint32_t i;
	int err;

	memset(h, 0, sizeof(*h));
	err = read_prologue(h, r, prologue);
	if (!err)
		err = read_tables(h, r, prologue);
	for (i = 0; !err && i < h->fixed.state_count; i++)
		err = read_state(h, r, i);
	if (err)
		image_head_free(h);
	return err;
}

void image_head_free(struct image_head *h)
{
	uint32_t i;

	for (i = 0; h->state_data && i < h->fixed.state_count; i++)
		free(h->state_data[i]);
	free(h->state_data);
	free(h->states);
	free(h->regions);
	memset(h, 0, sizeof(*h));
}

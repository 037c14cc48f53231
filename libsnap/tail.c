// SPDX-License-Identifier: MIT
/* Collects what the tail of an image says. */
#include "tail.h"

#include <stdlib.h>

#include "error.h"
#include "util/util.h"

#define ENTRIES_STEP (64 * KIB / sizeof(struct index_entry))

int tail_add(struct tail *t, const struct index_entry *e)
{
	struct index_entry *grown;

	if (t->count == t->room) {
		grown = realloc(t->entries,
				(t->room + ENTRIES_STEP) * sizeof(*grown));
		if (!grown)
			return error_nomem("the image's index");
		t->entries = grown;
		t->room += ENTRIES_STEP;
	}
	t->entries[t->count++] = *e;
	return 0;
}

void *tail_make(const struct tail *t, const struct writer_totals *totals,
		uint64_t offset, size_t *len)
{
	const struct format_totals pages = {
		.pages_total = totals->pages_total,
		.pages_data = totals->pages_data,
		.pages_zero = totals->pages_zero,
		.pages_absent = totals->pages_absent,
	};
	size_t index_len = format_index_size(t->count);
	struct format_footer footer = {
		.snapshot_tag = format_tag(totals->snapshot_id),
		.index_offset = offset,
		.index_length = index_len,
		.image_length = offset + index_len + FORMAT_FOOTER_SIZE,
	};
	uint8_t *tail = calloc(1, index_len + FORMAT_FOOTER_SIZE);

	if (!tail) {
		error_nomem("the image's index");
		return NULL;
	}
	footer.index_checksum =
		format_put_index(tail, t->entries, t->count, &pages);
	format_put_footer(tail + index_len, &footer);
	*len = index_len + FORMAT_FOOTER_SIZE;
	return tail;
}

void tail_free(struct tail *t)
{
	free(t->entries);
	*t = (struct tail){0};
}

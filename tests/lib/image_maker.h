/* SPDX-License-Identifier: MIT */
/* Makes images in memory, right ones and wrong ones, for tests of the read
 * side.  Nothing here fails gently: what cannot be made ends the program. */
#ifndef TEST_IMAGE_MAKER_H
#define TEST_IMAGE_MAKER_H

#include <stddef.h>
#include <stdint.h>

#include "format.h"

#define MAKER_REGIONS 8
#define MAKER_FRAMES 64

struct image_maker {
	struct format_head head;
	struct format_region regions[MAKER_REGIONS];
	struct format_state states[2];
	struct index_entry entries[MAKER_FRAMES];
	struct format_totals totals;
	struct format_footer footer;
	uint64_t count; /* frames */
	uint8_t *bytes;
	size_t len;
};

/** How a frame is stored, and how it is spoilt. */
struct maker_frame {
	uint32_t codec;
	int64_t raw_change;    /* added to the raw length that zstd gives */
	uint64_t tag_change;   /* xored into the tag */
	uint64_t pages_change; /* added to the index' count of data pages */
};

/** Add a region of @pages before maker_begin(). */
void maker_region(struct image_maker *m, const char *name, uint64_t pages);

/** Add a device state; @data is borrowed. */
void maker_state(struct image_maker *m, const char *name, const void *data,
		 size_t len);

/** The head, with an id that comes from @id. */
void maker_begin(struct image_maker *m, uint8_t id);

/** A frame whose data pages hold maker_page(). */
void maker_frame(struct image_maker *m, const struct maker_frame *how,
		 const struct frame_extent *extents, uint32_t n);

/** Index and footer. */
void maker_finish(struct image_maker *m);

/** Write @m->footer, and @m->entries before, anew after a change. */
void maker_rewrite_tail(struct image_maker *m);

/** What data page @page of @region holds. */
void maker_page(uint8_t *out, uint32_t region, uint64_t page);

/** Write the first @len bytes to the file @fd in place of what it holds. */
void maker_store(const struct image_maker *m, int fd, size_t len);

void maker_free(struct image_maker *m);

/*
 * The sample, an image with a bit of everything.  Region 0, "ram", of
 * SAMPLE_PAGES; region 1, "tiny", of one page with data; region 2, "hole",
 * never touched.  Device states "cpu" of SAMPLE_STATE bytes and "none" of 0.
 */
#define SAMPLE_PAGES 64u
#define SAMPLE_HOLE 1000u
#define SAMPLE_STATE 5000u
void maker_sample(struct image_maker *m);

/** What a page of the sample's region 0 is. */
enum frame_kind maker_sample_kind(uint64_t page);

#endif

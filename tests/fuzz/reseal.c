// SPDX-License-Identifier: MIT
/* Makes the checksums of an altered image right again. */
#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "format.h"
#include "fuzz/fuzz.h"
#include "util/util.h"

/* Offsets of docs/format.md. */
#define TABLE_LENGTH 16
#define HEAD_LENGTH 24
#define HEAD_SUM 32
#define REGION_COUNT 64
#define STATE_COUNT 68
#define TABLES 128
#define RECORD 96
#define STATE_LENGTH 64
#define STATE_SUM 72
#define STATE_OFFSET 80
#define FRAME_EXTENT_COUNT 4
#define FRAME_STORED 32
#define FRAME_PAYLOAD_SUM 40
#define FRAME_SUM 48
#define INDEX_ENTRIES 64
#define ENTRY 32
#define ENTRY_SUM 16
#define FOOTER_INDEX_OFFSET 16
#define FOOTER_INDEX_LENGTH 24
#define FOOTER_INDEX_SUM 32
#define FOOTER_SUM 48

struct bytes {
	uint8_t *at;
	size_t len;
};

static bool fits(const struct bytes *b, uint64_t offset, uint64_t len)
{
	return offset <= b->len && len <= b->len - offset;
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

/* Put the checksum of a range into one of the image's fields. */
static void seal(const struct bytes *b, uint64_t field, uint64_t offset,
		 uint64_t len)
{
	uint64_t sum;

	if (!fits(b, field, 8) || !fits(b, offset, len))
		return;
	/* A field within the range counts as zeros. */
	if (field >= offset && field - offset < len)
		memset(b->at + field, 0, 8);
	sum = htole64(format_checksum(b->at + offset, len));
	memcpy(b->at + field, &sum, sizeof(sum));
}

static void seal_head(const struct bytes *b)
{
	uint64_t first =
		TABLES + (uint64_t)get32(b->at + REGION_COUNT) * RECORD;
	uint64_t i, states = min_u64(get32(b->at + STATE_COUNT), 64);

	for (i = 0; i < states; i++) {
		uint64_t record = first + i * RECORD;

		if (!fits(b, record, RECORD))
			break;
		seal(b, record + STATE_SUM,
		     get64(b->at + record + STATE_OFFSET),
		     get64(b->at + record + STATE_LENGTH));
	}
	seal(b, HEAD_SUM, 0, get64(b->at + TABLE_LENGTH));
}

/* Seal the frame at @at; returns where it ends, or 0 when there is none. */
static uint64_t seal_frame(const struct bytes *b, uint64_t at)
{
	uint64_t room, stored;
	uint32_t extents;

	if (!fits(b, at, FORMAT_ALIGN) || !format_is_frame(b->at + at))
		return 0;
	extents = get32(b->at + at + FRAME_EXTENT_COUNT);
	stored = get64(b->at + at + FRAME_STORED);
	if (extents > FRAME_EXTENTS_MAX || stored > FRAME_RAW_MAX)
		return 0;
	room = format_frame_header_room(extents);
	seal(b, at + FRAME_PAYLOAD_SUM, at + room, stored);
	seal(b, at + FRAME_SUM, at, room);
	return at + format_frame_size(extents, stored);
}

static void seal_tail(const struct bytes *b)
{
	uint64_t footer = b->len - FORMAT_FOOTER_SIZE;

	seal(b, footer + FOOTER_INDEX_SUM,
	     get64(b->at + footer + FOOTER_INDEX_OFFSET),
	     get64(b->at + footer + FOOTER_INDEX_LENGTH));
	seal(b, footer + FOOTER_SUM, footer, FORMAT_FOOTER_SIZE);
}

void fuzz_reseal(uint8_t *image, size_t len)
{
	const struct bytes b = {image, len};
	uint64_t frames[64], at, count = 0, i;

	if (len < FORMAT_ALIGN)
		return;
	seal_head(&b);
	at = get64(image + HEAD_LENGTH);
	while (count < ARRAY_SIZE(frames)) {
		uint64_t end = seal_frame(&b, at);

		if (!end)
			break;
		frames[count++] = at;
		at = end;
	}
	/* What follows the frames is the index. */
	for (i = 0; i < count; i++) {
		uint64_t entry = at + INDEX_ENTRIES + i * ENTRY;

		if (fits(&b, entry, ENTRY))
			memcpy(image + entry + ENTRY_SUM,
			       image + frames[i] + FRAME_SUM, 8);
	}
	seal_tail(&b);
}

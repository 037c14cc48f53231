// SPDX-License-Identifier: MIT
/* The bytes of an image: pure encode, decode and validate. */
#include "format.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

/* For a hashing state on the stack: nothing here allocates. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#ifdef __x86_64__
#include <xxh_x86dispatch.h> /* XXH3_64bits() with AVX2 or AVX-512 */
#endif

/* Offsets of the fields, as docs/format.md lists them. */
enum prologue_at {
	HEAD_MAGIC = 0,
	HEAD_VERSION = 8,
	HEAD_COMPRESS = 12,
	HEAD_TABLE_LENGTH = 16,
	HEAD_LENGTH = 24,
	HEAD_CHECKSUM = 32,
	HEAD_ID = 40,
	HEAD_CREATED = 56,
	HEAD_REGIONS = 64,
	HEAD_STATES = 68,
	HEAD_PAGE_SIZE = 72,
	HEAD_FIXED = 128,
};

enum record_at {
	REGION_START = 64,
	REGION_LENGTH = 72,
	REGION_GUEST = 80,
	REGION_PAGE_SIZE = 88,
	REGION_SIZE = 96,
	STATE_LENGTH = 64,
	STATE_CHECKSUM = 72,
	STATE_OFFSET = 80,
	STATE_SIZE = 96,
};

enum frame_at {
	FRAME_MAGIC = 0,
	FRAME_EXTENTS = 4,
	FRAME_CODEC = 8,
	FRAME_TAG = 16,
	FRAME_RAW = 24,
	FRAME_STORED = 32,
	FRAME_PAYLOAD_SUM = 40,
	FRAME_HEADER_SUM = 48,
	EXTENT_SIZE = 16,
};

enum index_at {
	INDEX_MAGIC = 0,
	INDEX_COUNT = 8,
	INDEX_TOTAL = 16,
	INDEX_DATA = 24,
	INDEX_ZERO = 32,
	INDEX_ABSENT = 40,
	INDEX_FIXED = 64,
	ENTRY_SIZE = 32,
};

enum footer_at {
	FOOTER_MAGIC = 0,
	FOOTER_TAG = 8,
	FOOTER_INDEX_OFFSET = 16,
	FOOTER_INDEX_LENGTH = 24,
	FOOTER_INDEX_SUM = 32,
	FOOTER_IMAGE_LENGTH = 40,
	FOOTER_SUM = 48,
};

static const char head_magic[8] = "SNAPIMG";
static const char frame_magic[4] = {'S', 'N', 'F', 'R'};
static const char index_magic[8] = "SNAPIDX";
static const char footer_magic[8] = "SNAPEND";

static void put16(uint8_t *p, uint16_t v)
{
	v = htole16(v);
	memcpy(p, &v, sizeof(v));
}

static void put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static uint16_t get16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return le16toh(v);
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

static uint64_t pad(uint64_t v)
{
	return (v + FORMAT_ALIGN - 1) & ~(uint64_t)(FORMAT_ALIGN - 1);
}

uint64_t format_checksum(const void *p, size_t len)
{
	return XXH3_64bits(p, len);
}

/* The checksum of @len bytes with the 8 at @hole counted as zeros. */
static uint64_t checksum_without(const uint8_t *p, size_t len, size_t hole)
{
	static const uint8_t zeros[8];
	XXH3_state_t state;

	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, p, hole);
	XXH3_64bits_update(&state, zeros, sizeof(zeros));
	XXH3_64bits_update(&state, p + hole + 8, len - hole - 8);
	return XXH3_64bits_digest(&state);
}

uint64_t format_tag(const uint8_t id[16])
{
	return get64(id);
}

/* ---- head ---------------------------------------------------------------- */

size_t format_head_size(struct format_head *h, struct format_state *states)
{
	uint64_t at;
	uint32_t i;

	h->table_length = HEAD_FIXED + (uint64_t)h->region_count * REGION_SIZE +
			  (uint64_t)h->state_count * STATE_SIZE;
	at = pad(h->table_length);
	for (i = 0; i < h->state_count; i++) {
		states[i].offset = at;
		at = pad(at + states[i].length);
	}
	h->head_length = at;
	return at;
}

static uint8_t *put_region(uint8_t *p, const struct format_region *r)
{
	memcpy(p, r->name, FORMAT_NAME_ROOM);
	put64(p + REGION_START, r->start);
	put64(p + REGION_LENGTH, r->length);
	put64(p + REGION_GUEST, r->guest_addr);
	put32(p + REGION_PAGE_SIZE, r->page_size);
	return p + REGION_SIZE;
}

static uint8_t *put_state(uint8_t *p, const struct format_state *s)
{
	memcpy(p, s->name, FORMAT_NAME_ROOM);
	put64(p + STATE_LENGTH, s->length);
	put64(p + STATE_CHECKSUM, s->checksum);
	put64(p + STATE_OFFSET, s->offset);
	return p + STATE_SIZE;
}

void format_put_head(void *dst, const struct format_head *h,
		     const struct format_region *regions,
		     struct format_state *states)
{
	uint8_t *d = dst, *p = d + HEAD_FIXED;
	uint32_t i;

	memset(d, 0, h->head_length);
	memcpy(d + HEAD_MAGIC, head_magic, sizeof(head_magic));
	put32(d + HEAD_VERSION, FORMAT_VERSION);
	put32(d + HEAD_COMPRESS, h->compress);
	put64(d + HEAD_TABLE_LENGTH, h->table_length);
	put64(d + HEAD_LENGTH, h->head_length);
	memcpy(d + HEAD_ID, h->snapshot_id, 16);
	put64(d + HEAD_CREATED, h->created_unix_ns);
	put32(d + HEAD_REGIONS, h->region_count);
	put32(d + HEAD_STATES, h->state_count);
	put32(d + HEAD_PAGE_SIZE, 4096);
	for (i = 0; i < h->region_count; i++)
		p = put_region(p, &regions[i]);
	for (i = 0; i < h->state_count; i++) {
		struct format_state *s = &states[i];

		s->checksum = format_checksum(s->data, s->length);
		if (s->length)
			memcpy(d + s->offset, s->data, s->length);
		p = put_state(p, s);
	}
	put64(d + HEAD_CHECKSUM,
	      checksum_without(d, h->table_length, HEAD_CHECKSUM));
}

const char *format_get_prologue(const void *src, struct format_head *h)
{
	const uint8_t *p = src;

	memset(h, 0, sizeof(*h));
	if (memcmp(p, head_magic, sizeof(head_magic)) != 0)
		return "this is not a snapshot image";
	h->version = get32(p + HEAD_VERSION);
	if (h->version != FORMAT_VERSION)
		return "unknown format version";
	h->compress = get32(p + HEAD_COMPRESS);
	h->table_length = get64(p + HEAD_TABLE_LENGTH);
	h->head_length = get64(p + HEAD_LENGTH);
	h->checksum = get64(p + HEAD_CHECKSUM);
	memcpy(h->snapshot_id, p + HEAD_ID, 16);
	h->created_unix_ns = get64(p + HEAD_CREATED);
	h->region_count = get32(p + HEAD_REGIONS);
	h->state_count = get32(p + HEAD_STATES);
	if (get32(p + HEAD_PAGE_SIZE) != 4096)
		return "the pages have an impossible size";
	if (h->table_length > FORMAT_HEAD_MAX || h->table_length < HEAD_FIXED)
		return "the tables have an impossible length";
	if (h->table_length != HEAD_FIXED +
				       (uint64_t)h->region_count * REGION_SIZE +
				       (uint64_t)h->state_count * STATE_SIZE)
		return "the tables' length does not fit their counts";
	if (h->head_length < pad(h->table_length) ||
	    h->head_length % FORMAT_ALIGN ||
	    h->head_length - pad(h->table_length) >
		    FORMAT_STATES_MAX + (uint64_t)h->state_count * FORMAT_ALIGN)
		return "the header has an impossible length";
	return NULL;
}

static bool name_ok(const char *name)
{
	return name[0] && memchr(name, '\0', FORMAT_NAME_ROOM);
}

static const char *check_region(const struct format_region *r)
{
	bool size_ok = r->page_size >= 4096 &&
		       (r->page_size & (r->page_size - 1)) == 0;

	if (!name_ok(r->name))
		return "a region has no proper name";
	if (!size_ok || !r->length || r->length % 4096 || r->start % 4096 ||
	    r->start + r->length < r->start || r->length >> 12 > UINT32_MAX)
		return "a region has an impossible place or size";
	return NULL;
}

const char *format_check_tables(const void *src, const struct format_head *h)
{
	struct format_region region;
	struct format_state state;
	uint64_t at = pad(h->table_length);
	const char *wrong = NULL;
	uint32_t i;

	if (checksum_without(src, h->table_length, HEAD_CHECKSUM) !=
	    h->checksum)
		return "the header's checksum does not match";
	if (!h->region_count || h->region_count > 65535)
		return "an impossible number of regions";
	for (i = 0; i < h->region_count && !wrong; i++) {
		format_get_region(src, h, i, &region);
		wrong = check_region(&region);
	}
	for (i = 0; i < h->state_count && !wrong; i++) {
		format_get_state(src, h, i, &state);
		if (!name_ok(state.name))
			return "a device state has no proper name";
		if (state.offset != at || state.length > FORMAT_STATES_MAX)
			return "a device state has an impossible place";
		at = pad(at + state.length);
	}
	if (!wrong && at != h->head_length)
		return "the device states do not fill the header";
	return wrong;
}

void format_get_region(const void *src, const struct format_head *h, uint32_t i,
		       struct format_region *out)
{
	const uint8_t *p =
		(const uint8_t *)src + HEAD_FIXED + (size_t)i * REGION_SIZE;

	(void)h;
	memcpy(out->name, p, FORMAT_NAME_ROOM);
	out->start = get64(p + REGION_START);
	out->length = get64(p + REGION_LENGTH);
	out->guest_addr = get64(p + REGION_GUEST);
	out->page_size = get32(p + REGION_PAGE_SIZE);
}

void format_get_state(const void *src, const struct format_head *h, uint32_t i,
		      struct format_state *out)
{
	const uint8_t *p = (const uint8_t *)src + HEAD_FIXED +
			   (size_t)h->region_count * REGION_SIZE +
			   (size_t)i * STATE_SIZE;

	memcpy(out->name, p, FORMAT_NAME_ROOM);
	out->length = get64(p + STATE_LENGTH);
	out->checksum = get64(p + STATE_CHECKSUM);
	out->offset = get64(p + STATE_OFFSET);
	out->data = NULL;
}

/* ---- frames -------------------------------------------------------------- */

size_t format_frame_header_room(uint32_t extent_count)
{
	return pad(FORMAT_FRAME_FIXED + (uint64_t)extent_count * EXTENT_SIZE);
}

size_t format_frame_size(uint32_t extent_count, uint64_t stored_len)
{
	return format_frame_header_room(extent_count) + pad(stored_len);
}

uint64_t format_put_frame(void *dst, const struct format_frame *f,
			  const struct frame_extent *extents)
{
	size_t room = format_frame_header_room(f->extent_count);
	uint8_t *d = dst, *p = d + FORMAT_FRAME_FIXED;
	uint64_t sum;
	uint32_t i;

	assert(f->extent_count && f->extent_count <= FRAME_EXTENTS_MAX);
	memset(d, 0, room);
	memcpy(d + FRAME_MAGIC, frame_magic, sizeof(frame_magic));
	put32(d + FRAME_EXTENTS, f->extent_count);
	put32(d + FRAME_CODEC, f->codec);
	put64(d + FRAME_TAG, f->snapshot_tag);
	put64(d + FRAME_RAW, f->raw_len);
	put64(d + FRAME_STORED, f->stored_len);
	put64(d + FRAME_PAYLOAD_SUM, f->payload_checksum);
	for (i = 0; i < f->extent_count; i++, p += EXTENT_SIZE) {
		put64(p, extents[i].first_page);
		put32(p + 8, extents[i].count);
		put16(p + 12, extents[i].region);
		put16(p + 14, extents[i].kind);
	}
	sum = checksum_without(d, room, FRAME_HEADER_SUM);
	put64(d + FRAME_HEADER_SUM, sum);
	return sum;
}

bool format_is_frame(const void *src)
{
	return memcmp(src, frame_magic, sizeof(frame_magic)) == 0;
}

const char *format_get_frame_fixed(const void *src, struct format_frame *f)
{
	const uint8_t *p = src;

	if (!format_is_frame(src))
		return "no frame begins here";
	f->extent_count = get32(p + FRAME_EXTENTS);
	f->codec = get32(p + FRAME_CODEC);
	f->snapshot_tag = get64(p + FRAME_TAG);
	f->raw_len = get64(p + FRAME_RAW);
	f->stored_len = get64(p + FRAME_STORED);
	f->payload_checksum = get64(p + FRAME_PAYLOAD_SUM);
	f->header_checksum = get64(p + FRAME_HEADER_SUM);
	if (!f->extent_count || f->extent_count > FRAME_EXTENTS_MAX)
		return "a frame has an impossible number of extents";
	if (f->raw_len > FRAME_RAW_MAX || f->raw_len % 4096 ||
	    f->stored_len > f->raw_len)
		return "a frame has an impossible length";
	if (f->codec > FRAME_CODEC_ZSTD)
		return "a frame has an unknown codec";
	if (f->codec == FRAME_CODEC_NONE && f->stored_len != f->raw_len)
		return "a stored frame's lengths differ";
	return NULL;
}

const char *format_get_frame(const void *src, struct format_frame *f,
			     struct frame_extent *extents)
{
	const uint8_t *p = (const uint8_t *)src + FORMAT_FRAME_FIXED;
	const char *wrong = format_get_frame_fixed(src, f);
	uint64_t data = 0;
	uint32_t i;

	if (wrong)
		return wrong;
	if (checksum_without(src, format_frame_header_room(f->extent_count),
			     FRAME_HEADER_SUM) != f->header_checksum)
		return "a frame header's checksum does not match";
	for (i = 0; i < f->extent_count; i++, p += EXTENT_SIZE) {
		extents[i].first_page = get64(p);
		extents[i].count = get32(p + 8);
		extents[i].region = get16(p + 12);
		extents[i].kind = get16(p + 14);
		if (!extents[i].count || extents[i].kind > FRAME_DATA)
			return "a frame has an impossible extent";
		if (extents[i].kind == FRAME_DATA)
			data += extents[i].count;
	}
	if (data * 4096 != f->raw_len)
		return "a frame's extents do not add up to its length";
	return NULL;
}

/* ---- index and footer ---------------------------------------------------- */

size_t format_index_size(uint64_t entries)
{
	return pad(INDEX_FIXED + entries * ENTRY_SIZE);
}

uint64_t format_put_index(void *dst, const struct index_entry *entries,
			  uint64_t count, const struct format_totals *totals)
{
	size_t size = format_index_size(count);
	uint8_t *d = dst, *p = d + INDEX_FIXED;
	uint64_t i;

	memset(d, 0, size);
	memcpy(d + INDEX_MAGIC, index_magic, sizeof(index_magic));
	put64(d + INDEX_COUNT, count);
	put64(d + INDEX_TOTAL, totals->pages_total);
	put64(d + INDEX_DATA, totals->pages_data);
	put64(d + INDEX_ZERO, totals->pages_zero);
	put64(d + INDEX_ABSENT, totals->pages_absent);
	for (i = 0; i < count; i++, p += ENTRY_SIZE) {
		put64(p, entries[i].offset);
		put64(p + 8, entries[i].length);
		put64(p + 16, entries[i].header_checksum);
		put32(p + 24, entries[i].pages_data);
		put32(p + 28, entries[i].pages_zero);
	}
	return format_checksum(d, size);
}

bool format_is_index(const void *src)
{
	return memcmp(src, index_magic, sizeof(index_magic)) == 0;
}

const char *format_get_index_count(const void *src, uint64_t length,
				   uint64_t *count)
{
	*count = get64((const uint8_t *)src + INDEX_COUNT);
	if (!format_is_index(src))
		return "no index begins here";
	if (*count > length / ENTRY_SIZE || format_index_size(*count) != length)
		return "the index's length does not fit its count";
	return NULL;
}

const char *format_get_index(const void *src, uint64_t length,
			     uint64_t checksum, struct format_totals *totals)
{
	const uint8_t *p = src;
	uint64_t count;
	const char *wrong = format_get_index_count(src, length, &count);

	if (wrong)
		return wrong;
	if (format_checksum(src, length) != checksum)
		return "the index's checksum does not match";
	totals->pages_total = get64(p + INDEX_TOTAL);
	totals->pages_data = get64(p + INDEX_DATA);
	totals->pages_zero = get64(p + INDEX_ZERO);
	totals->pages_absent = get64(p + INDEX_ABSENT);
	return NULL;
}

void format_get_entry(const void *src, uint64_t i, struct index_entry *out)
{
	const uint8_t *p = (const uint8_t *)src + INDEX_FIXED + i * ENTRY_SIZE;

	out->offset = get64(p);
	out->length = get64(p + 8);
	out->header_checksum = get64(p + 16);
	out->pages_data = get32(p + 24);
	out->pages_zero = get32(p + 28);
}

void format_put_footer(void *dst, const struct format_footer *f)
{
	uint8_t *d = dst;

	memset(d, 0, FORMAT_FOOTER_SIZE);
	memcpy(d + FOOTER_MAGIC, footer_magic, sizeof(footer_magic));
	put64(d + FOOTER_TAG, f->snapshot_tag);
	put64(d + FOOTER_INDEX_OFFSET, f->index_offset);
	put64(d + FOOTER_INDEX_LENGTH, f->index_length);
	put64(d + FOOTER_INDEX_SUM, f->index_checksum);
	put64(d + FOOTER_IMAGE_LENGTH, f->image_length);
	put64(d + FOOTER_SUM,
	      checksum_without(d, FORMAT_FOOTER_SIZE, FOOTER_SUM));
}

bool format_is_footer(const void *src)
{
	return memcmp(src, footer_magic, sizeof(footer_magic)) == 0;
}

const char *format_get_footer(const void *src, struct format_footer *f)
{
	const uint8_t *p = src;

	if (!format_is_footer(src))
		return "the footer is missing, the image was never finished or "
		       "was cut";
	if (checksum_without(p, FORMAT_FOOTER_SIZE, FOOTER_SUM) !=
	    get64(p + FOOTER_SUM))
		return "the footer's checksum does not match";
	f->snapshot_tag = get64(p + FOOTER_TAG);
	f->index_offset = get64(p + FOOTER_INDEX_OFFSET);
	f->index_length = get64(p + FOOTER_INDEX_LENGTH);
	f->index_checksum = get64(p + FOOTER_INDEX_SUM);
	f->image_length = get64(p + FOOTER_IMAGE_LENGTH);
	if (f->index_length < FORMAT_ALIGN || f->index_offset % FORMAT_ALIGN ||
	    f->index_length % FORMAT_ALIGN ||
	    f->image_length < FORMAT_FOOTER_SIZE ||
	    f->index_length > f->image_length - FORMAT_FOOTER_SIZE ||
	    f->index_offset >
		    f->image_length - f->index_length - FORMAT_FOOTER_SIZE ||
	    f->index_offset + f->index_length + FORMAT_FOOTER_SIZE !=
		    f->image_length)
		return "the footer's lengths do not fit";
	return NULL;
}

// SPDX-License-Identifier: MIT
/*
 * Writes the corpus of fuzz_format: small images without damage, good-*.
 *
 *	fuzz_make_corpus DIRECTORY
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "format.h"
#include "fuzz/fuzz.h"
#include "util/util.h"

#define FRAMES_MAX 8

/* An image being made, and what its tail has to say. */
struct maker {
	struct format_head head;
	uint8_t bytes[FUZZ_INPUT_MAX / FUZZ_CHUNK * FUZZ_BLOCK];
	size_t len;
	struct index_entry entries[FRAMES_MAX];
	uint64_t count;
	struct format_totals totals;
};

static const struct format_region regions[] = {
	{.name = "ram",
	 .start = 0x7f0000000000,
	 .length = 16 * PAGE_BYTES,
	 .page_size = PAGE_BYTES},
	{.name = "hole",
	 .start = 0x7f8000000000,
	 .length = GIB,
	 .guest_addr = GIB,
	 .page_size = 2 * MIB},
};

static void begin(struct maker *m, uint32_t region_count, uint32_t state_count)
{
	struct format_state states[] = {
		{.name = "cpu", .length = 200, .data = "registers ........"},
		{.name = "empty", .length = 0, .data = ""},
	};
	static uint8_t registers[200];

	memset(m, 0, sizeof(*m));
	memset(registers, 'r', sizeof(registers));
	states[0].data = registers;
	memset(m->head.snapshot_id, 0x42, sizeof(m->head.snapshot_id));
	m->head.created_unix_ns = 1800000000000000000u;
	m->head.compress = 1;
	m->head.region_count = region_count;
	m->head.state_count = state_count;
	m->len = format_head_size(&m->head, states);
	format_put_head(m->bytes, &m->head, regions, states);
}

static void count_pages(struct maker *m, const struct frame_extent *e)
{
	struct index_entry *entry = &m->entries[m->count];

	m->totals.pages_total += e->count;
	if (e->kind == FRAME_ABSENT) {
		m->totals.pages_absent += e->count;
	} else if (e->kind == FRAME_ZERO) {
		m->totals.pages_zero += e->count;
		entry->pages_zero += e->count;
	} else {
		m->totals.pages_data += e->count;
		entry->pages_data += e->count;
	}
}

/* Only the first bytes of a block are in an input, so pages have no more. */
static void fill_pages(uint8_t *raw, size_t pages)
{
	size_t i;

	for (i = 0; i < pages; i++)
		memset(raw + i * PAGE_BYTES, (int)('A' + i), 100);
}

static void add_frame(struct maker *m, uint32_t codec,
		      const struct frame_extent *extents, uint32_t n)
{
	static uint8_t raw[16 * PAGE_BYTES], stored[32 * PAGE_BYTES];
	struct format_frame f = {
		.snapshot_tag = format_tag(m->head.snapshot_id),
		.codec = codec,
		.extent_count = n,
	};
	struct index_entry *entry = &m->entries[m->count];
	size_t room = format_frame_header_room(n);
	uint32_t i;

	for (i = 0; i < n; i++)
		count_pages(m, &extents[i]);
	memset(raw, 0, sizeof(raw));
	fill_pages(raw, entry->pages_data);
	f.raw_len = f.stored_len = entry->pages_data * PAGE_BYTES;
	memcpy(stored, raw, f.raw_len);
	if (codec == FRAME_CODEC_ZSTD)
		f.stored_len = ZSTD_compress(stored, sizeof(stored), raw,
					     f.raw_len, 1);
	f.payload_checksum = format_checksum(stored, f.stored_len);
	entry->offset = m->len;
	entry->length = format_frame_size(n, f.stored_len);
	entry->header_checksum =
		format_put_frame(m->bytes + m->len, &f, extents);
	memcpy(m->bytes + m->len + room, stored, f.stored_len);
	m->len += entry->length;
	m->count++;
}

static void finish(struct maker *m)
{
	struct format_footer f = {
		.snapshot_tag = format_tag(m->head.snapshot_id),
		.index_offset = m->len,
		.index_length = format_index_size(m->count),
	};

	f.index_checksum = format_put_index(m->bytes + m->len, m->entries,
					    m->count, &m->totals);
	m->len += f.index_length;
	f.image_length = m->len + FORMAT_FOOTER_SIZE;
	format_put_footer(m->bytes + m->len, &f);
	m->len += FORMAT_FOOTER_SIZE;
}

static void store(const struct maker *m, const char *dir, const char *name)
{
	char path[4096];
	FILE *file;
	size_t at;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "wb");
	if (!file) {
		perror(path);
		exit(1);
	}
	for (at = 0; at < m->len; at += FUZZ_BLOCK)
		fwrite(m->bytes + at, 1, FUZZ_CHUNK, file);
	if (fclose(file)) {
		perror(path);
		exit(1);
	}
}

/* Kinds of every sort, out of order, in frames of both codecs. */
static void make_mixed(struct maker *m)
{
	static const struct frame_extent first[] = {
		{4, 2, 0, FRAME_DATA},
		{0, 4, 0, FRAME_ZERO},
		{9, 1, 0, FRAME_DATA},
	};
	static const struct frame_extent second[] = {
		{10, 6, 0, FRAME_DATA},
		{6, 3, 0, FRAME_ABSENT},
	};
	static const struct frame_extent third[] = {
		{0, GIB / PAGE_BYTES, 1, FRAME_ABSENT},
	};

	begin(m, 2, 2);
	add_frame(m, FRAME_CODEC_NONE, first, ARRAY_SIZE(first));
	add_frame(m, FRAME_CODEC_ZSTD, second, ARRAY_SIZE(second));
	add_frame(m, FRAME_CODEC_NONE, third, ARRAY_SIZE(third));
	finish(m);
}

static void make_one(struct maker *m, uint32_t codec, enum frame_kind kind)
{
	const struct frame_extent all = {0, 16, 0, (uint16_t)kind};

	begin(m, 1, 0);
	add_frame(m, codec, &all, 1);
	finish(m);
}

int main(int argc, char **argv)
{
	static struct maker m;

	if (argc != 2) {
		fprintf(stderr, "usage: fuzz_make_corpus DIRECTORY\n");
		return 2;
	}
	make_mixed(&m);
	store(&m, argv[1], "good-mixed");
	make_one(&m, FRAME_CODEC_NONE, FRAME_DATA);
	store(&m, argv[1], "good-stored");
	make_one(&m, FRAME_CODEC_ZSTD, FRAME_DATA);
	store(&m, argv[1], "good-zstd");
	make_one(&m, FRAME_CODEC_NONE, FRAME_ABSENT);
	store(&m, argv[1], "good-absent");
	return 0;
}

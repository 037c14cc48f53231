// SPDX-License-Identifier: MIT
/* Makes images in memory, right ones and wrong ones. */
#include "lib/image_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "util/util.h"

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

void maker_region(struct image_maker *m, const char *name, uint64_t pages)
{
	struct format_region *r = &m->regions[m->head.region_count++];

	must(m->head.region_count <= MAKER_REGIONS, "too many regions");
	snprintf(r->name, sizeof(r->name), "%s", name);
	r->start = (uint64_t)m->head.region_count << 32;
	r->guest_addr = r->start / 2;
	r->length = pages * PAGE_BYTES;
	r->page_size = PAGE_BYTES;
}

void maker_state(struct image_maker *m, const char *name, const void *data,
		 size_t len)
{
	struct format_state *s = &m->states[m->head.state_count++];

	must(m->head.state_count <= ARRAY_SIZE(m->states), "too many states");
	snprintf(s->name, sizeof(s->name), "%s", name);
	s->data = data;
	s->length = len;
}

/* Room for @len bytes more, zeroed; they count as written. */
static uint8_t *append(struct image_maker *m, size_t len)
{
	m->bytes = realloc(m->bytes, m->len + len);
	must(m->bytes != NULL, "realloc");
	memset(m->bytes + m->len, 0, len);
	m->len += len;
	return m->bytes + m->len - len;
}

void maker_begin(struct image_maker *m, uint8_t id)
{
	size_t len = format_head_size(&m->head, m->states);

	memset(m->head.snapshot_id, id, sizeof(m->head.snapshot_id));
	m->head.created_unix_ns = 1700000000000000000u;
	format_put_head(append(m, len), &m->head, m->regions, m->states);
}

void maker_page(uint8_t *out, uint32_t region, uint64_t page)
{
	uint64_t v = (region + 1) * 1000003u + page * 7919u + 1;

	for (size_t i = 0; i < PAGE_BYTES; i += 8) {
		/* Half of it can be compressed. */
		v ^= v << 13;
		v ^= v >> 7;
		v ^= v << 17;
		memcpy(out + i, i % 16 ? &page : &v, 8);
	}
	out[0] |= 1;
}

static uint8_t *fill_payload(const struct frame_extent *extents, uint32_t n,
			     size_t *len)
{
	uint8_t *raw = calloc(1, FRAME_RAW_MAX), *p = raw;

	must(raw != NULL, "calloc");
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0;
		     extents[i].kind == FRAME_DATA && j < extents[i].count;
		     j++, p += PAGE_BYTES)
			maker_page(p, extents[i].region,
				   extents[i].first_page + j);
	*len = (size_t)(p - raw);
	return raw;
}

static void count_pages(struct image_maker *m, struct index_entry *entry,
			const struct frame_extent *e)
{
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

void maker_frame(struct image_maker *m, const struct maker_frame *how,
		 const struct frame_extent *extents, uint32_t n)
{
	struct format_frame f = {.codec = how->codec, .extent_count = n};
	struct index_entry entry = {.offset = m->len};
	uint8_t *raw, *stored, *out;
	size_t len, room;

	raw = fill_payload(extents, n, &len);
	stored = malloc(ZSTD_compressBound(FRAME_RAW_MAX));
	must(stored != NULL && m->count < MAKER_FRAMES, "frame");
	f.raw_len = f.stored_len = len;
	memcpy(stored, raw, len);
	if (how->codec == FRAME_CODEC_ZSTD)
		f.stored_len = ZSTD_compress(
			stored, ZSTD_compressBound(FRAME_RAW_MAX), raw,
			(size_t)((int64_t)len + how->raw_change), 1);
	f.snapshot_tag = format_tag(m->head.snapshot_id) ^ how->tag_change;
	f.payload_checksum = format_checksum(stored, f.stored_len);
	room = format_frame_header_room(n);
	entry.length = format_frame_size(n, f.stored_len);
	out = append(m, entry.length);
	entry.header_checksum = format_put_frame(out, &f, extents);
	memcpy(out + room, stored, f.stored_len);
	for (uint32_t i = 0; i < n; i++)
		count_pages(m, &entry, &extents[i]);
	entry.pages_data += (uint32_t)how->pages_change;
	m->entries[m->count++] = entry;
	free(stored);
	free(raw);
}

void maker_rewrite_tail(struct image_maker *m)
{
	uint8_t *index = m->bytes + m->footer.index_offset;

	m->footer.index_checksum =
		format_put_index(index, m->entries, m->count, &m->totals);
	format_put_footer(m->bytes + m->len - FORMAT_FOOTER_SIZE, &m->footer);
}

void maker_finish(struct image_maker *m)
{
	m->footer.snapshot_tag = format_tag(m->head.snapshot_id);
	m->footer.index_offset = m->len;
	m->footer.index_length = format_index_size(m->count);
	append(m, m->footer.index_length + FORMAT_FOOTER_SIZE);
	m->footer.image_length = m->len;
	maker_rewrite_tail(m);
}

void maker_store(const struct image_maker *m, int fd, size_t len)
{
	size_t done = 0;
	ssize_t n;

	must(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0, "truncate");
	for (; done < len; done += (size_t)n) {
		n = pwrite(fd, m->bytes + done, len - done, (off_t)done);
		must(n > 0, "write");
	}
}

void maker_free(struct image_maker *m)
{
	free(m->bytes);
	memset(m, 0, sizeof(*m));
}

static const struct frame_extent sample[] = {
	{0, 8, 0, FRAME_DATA},	   {8, 8, 0, FRAME_ZERO},
	{16, 24, 0, FRAME_DATA},   {45, 1, 0, FRAME_DATA},
	{0, 1, 1, FRAME_DATA},	   {41, 1, 0, FRAME_DATA},
	{40, 1, 0, FRAME_ZERO},	   {42, 3, 0, FRAME_DATA},
	{46, 18, 0, FRAME_ABSENT}, {0, SAMPLE_HOLE, 2, FRAME_ABSENT},
};

void maker_sample(struct image_maker *m)
{
	static const struct maker_frame none = {.codec = FRAME_CODEC_NONE};
	static const struct maker_frame zstd = {.codec = FRAME_CODEC_ZSTD};
	static uint8_t registers[SAMPLE_STATE];

	memset(m, 0, sizeof(*m));
	memset(registers, 'r', sizeof(registers));
	maker_region(m, "ram", SAMPLE_PAGES);
	maker_region(m, "tiny", 1);
	maker_region(m, "hole", SAMPLE_HOLE);
	maker_state(m, "cpu", registers, sizeof(registers));
	maker_state(m, "none", NULL, 0);
	maker_begin(m, 0x5a);
	maker_frame(m, &none, sample, 2);
	maker_frame(m, &zstd, sample + 2, 1);
	maker_frame(m, &none, sample + 3, 3);
	maker_frame(m, &zstd, sample + 6, 3);
	maker_frame(m, &none, sample + 9, 1);
	maker_finish(m);
}

enum frame_kind maker_sample_kind(uint64_t page)
{
	for (size_t i = 0; i < ARRAY_SIZE(sample); i++)
		if (!sample[i].region && page >= sample[i].first_page &&
		    page < sample[i].first_page + sample[i].count)
			return sample[i].kind;
	abort();
}

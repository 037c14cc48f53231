// SPDX-License-Identifier: MIT
/* The bytes of an image: what is put can be got, and nothing else. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <string.h>

#include "lib/image_maker.h"
#include "util/util.h"

static struct image_maker m;

static int setup(void **state)
{
	maker_sample(&m);
	return 0;
}

static int teardown(void **state)
{
	maker_free(&m);
	return 0;
}

static void set32(size_t at, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		m.bytes[at + i] = (uint8_t)(v >> (8 * i));
}

static void set64(size_t at, uint64_t v)
{
	set32(at, (uint32_t)v);
	set32(at + 4, (uint32_t)(v >> 32));
}

/* The XXH3-64 of @len bytes at @at with the 8 at @hole of them as zeros, put
 * there: what someone who makes an image up would do. */
static void seal(size_t at, size_t len, size_t hole)
{
	set64(at + hole, 0);
	set64(at + hole, format_checksum(m.bytes + at, len));
}

static const char *check_head(void)
{
	struct format_head h;
	const char *wrong = format_get_prologue(m.bytes, &h);

	return wrong ? wrong : format_check_tables(m.bytes, &h);
}

static void a_head_reads_back(void **state)
{
	struct format_region r;
	struct format_state s;
	struct format_head h;

	assert_null(format_get_prologue(m.bytes, &h));
	assert_null(format_check_tables(m.bytes, &h));
	assert_int_equal(h.version, FORMAT_VERSION);
	assert_int_equal(h.created_unix_ns, m.head.created_unix_ns);
	assert_memory_equal(h.snapshot_id, m.head.snapshot_id, 16);
	assert_int_equal(h.head_length, 4096 + 8192);
	format_get_region(m.bytes, &h, 1, &r);
	assert_string_equal(r.name, "tiny");
	assert_int_equal(r.start, m.regions[1].start);
	assert_int_equal(r.length, 4096);
	assert_int_equal(r.guest_addr, m.regions[1].guest_addr);
	format_get_state(m.bytes, &h, 0, &s);
	assert_string_equal(s.name, "cpu");
	assert_int_equal(s.length, SAMPLE_STATE);
	assert_int_equal(s.offset, 4096);
}

static void an_altered_head_is_refused(void **state)
{
	for (size_t i = 0; i < m.head.table_length; i++) {
		m.bytes[i] ^= 0x40;
		assert_non_null(check_head());
		m.bytes[i] ^= 0x40;
	}
	assert_null(check_head());
}

/* Heads that someone sealed with the right checksum. */
static void impossible_tables_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint64_t value;
		const char *why;
	} cases[] = {
		{16, UINT64_MAX, "impossible length"},
		{16, 64, "impossible length"},
		{24, 4096, "impossible place"}, /* the states are outside */
		{24, (uint64_t)1 << 60, "impossible length"},
		{24, 4095, "impossible length"},
		{64, 0xffffffff00000003, "impossible length"},
		{64, 0x0000000200000000, "fit their counts"},
		{72, 512, "pages have an impossible size"},
		{128, 0, "no proper name"},
		{128 + 64, 4097, "impossible place"},
		{128 + 64, (uint64_t)-4096, "impossible place"},
		{128 + 72, 0, "impossible place"},
		{128 + 72, 4095, "impossible place"},
		{128 + 72, (uint64_t)1 << 45, "impossible place"},
		{128 + 88, 3, "impossible place"},
		{128 + 3 * 96, 0, "no proper name"},
		{128 + 3 * 96 + 64, UINT64_MAX, "impossible place"},
		{128 + 3 * 96 + 64, 1, "impossible place"},
		{128 + 3 * 96 + 80, 0, "impossible place"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *wrong;

		teardown(state);
		setup(state);
		set64(cases[i].at, cases[i].value);
		seal(0, m.head.table_length, 32);
		wrong = check_head();
		if (!wrong)
			fail_msg("case %zu is taken", i);
		else if (!strstr(wrong, cases[i].why) &&
			 !strstr(wrong, "do not fill the header") &&
			 !strstr(wrong, "fit their counts"))
			fail_msg("case %zu: %s", i, wrong);
	}
}

static void a_frame_reads_back(void **state)
{
	struct frame_extent extents[FRAME_EXTENTS_MAX];
	struct format_frame f;
	const uint8_t *at = m.bytes + m.entries[2].offset;

	assert_true(format_is_frame(at));
	assert_null(format_get_frame(at, &f, extents));
	assert_int_equal(f.extent_count, 3);
	assert_int_equal(f.raw_len, 3 * 4096);
	assert_int_equal(f.header_checksum, m.entries[2].header_checksum);
	assert_int_equal(extents[1].region, 1);
	assert_int_equal(extents[2].first_page, 41);
	assert_int_equal(extents[2].kind, FRAME_DATA);
}

static void an_altered_frame_header_is_refused(void **state)
{
	struct frame_extent extents[FRAME_EXTENTS_MAX];
	uint8_t *at = m.bytes + m.entries[2].offset;
	struct format_frame f;

	for (size_t i = 0; i < format_frame_header_room(3); i++) {
		at[i] ^= 0x04;
		assert_non_null(format_get_frame(at, &f, extents));
		at[i] ^= 0x04;
	}
}

static void impossible_frames_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint32_t value;
	} cases[] = {
		{4, 0},	   /* no extent */
		{4, 1017}, /* more than fit */
		{4, UINT32_MAX},
		{8, 2},	    /* no such codec */
		{24, 4096}, /* fewer bytes than the extents have */
		{24, 3 * 4096 + 1},
		{28, 1},	/* more than a frame may have */
		{32, 4 * 4096}, /* stored longer than raw */
		{32, 4096},	/* not compressed, and yet shorter */
		{64 + 8, 0},	/* an extent of no page */
		{64 + 8, UINT32_MAX},
		{64 + 12, 3 << 16}, /* no such kind */
	};
	struct frame_extent extents[FRAME_EXTENTS_MAX];
	struct format_frame f;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t at;

		teardown(state);
		setup(state);
		at = m.entries[2].offset;
		set32(at + cases[i].at, cases[i].value);
		seal(at, format_frame_header_room(3), 48);
		if (!format_get_frame(m.bytes + at, &f, extents))
			fail_msg("case %zu is taken", i);
	}
}

static void index_and_footer_read_back(void **state)
{
	const uint8_t *at = m.bytes + m.footer.index_offset;
	struct format_totals totals;
	struct index_entry entry;
	struct format_footer f;
	uint64_t count;

	assert_null(format_get_footer(m.bytes + m.len - 4096, &f));
	assert_int_equal(f.index_offset, m.footer.index_offset);
	assert_int_equal(f.image_length, m.len);
	assert_true(format_is_index(at));
	assert_false(format_is_frame(at));
	assert_null(format_get_index_count(at, f.index_length, &count));
	assert_int_equal(count, m.count);
	assert_null(format_get_index(at, f.index_length, f.index_checksum,
				     &totals));
	assert_memory_equal(&totals, &m.totals, sizeof(totals));
	format_get_entry(at, 1, &entry);
	assert_memory_equal(&entry, &m.entries[1], sizeof(entry));
}

static void a_wrong_index_is_refused(void **state)
{
	uint8_t *at = m.bytes + m.footer.index_offset;
	struct format_totals totals;
	uint64_t count;

	assert_non_null(format_get_index_count(at, 8192, &count));
	set64(m.footer.index_offset + 8, UINT64_MAX / 32);
	assert_non_null(format_get_index_count(at, 4096, &count));
	set64(m.footer.index_offset + 8, m.count);
	at[4000] = 1;
	assert_non_null(
		format_get_index(at, 4096, m.footer.index_checksum, &totals));
	at[0] = 'X';
	assert_non_null(format_get_index_count(at, 4096, &count));
}

static void impossible_footers_are_refused(void **state)
{
	static const uint64_t cases[][3] = {
		/* index offset, its length, the image's length */
		{0, 0, 4096},
		{4096, 4096, 8192},
		{4097, 4096, 4097 + 8192},
		{4096, 5000, 4096 + 5000 + 4096},
		{4096, 4096, 4096 * 4},
		{(uint64_t)-4096, 8192, 8192},
		{4096, (uint64_t)-8192, 0},
		{(uint64_t)-8192, 4096, 0},
	};
	uint8_t bytes[FORMAT_FOOTER_SIZE];
	struct format_footer f;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		f = (struct format_footer){.index_offset = cases[i][0],
					   .index_length = cases[i][1],
					   .image_length = cases[i][2]};
		format_put_footer(bytes, &f);
		if (!format_get_footer(bytes, &f))
			fail_msg("case %zu is taken", i);
	}
	for (size_t i = 0; i < sizeof(bytes); i++) {
		format_put_footer(bytes, &m.footer);
		bytes[i] ^= 0x80;
		assert_non_null(format_get_footer(bytes, &f));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_head_reads_back),
		cmocka_unit_test(an_altered_head_is_refused),
		cmocka_unit_test(impossible_tables_are_refused),
		cmocka_unit_test(a_frame_reads_back),
		cmocka_unit_test(an_altered_frame_header_is_refused),
		cmocka_unit_test(impossible_frames_are_refused),
		cmocka_unit_test(index_and_footer_read_back),
		cmocka_unit_test(a_wrong_index_is_refused),
		cmocka_unit_test(impossible_footers_are_refused),
	};
	struct CMUnitTest fresh[ARRAY_SIZE(tests)];

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		fresh[i] = tests[i];
		fresh[i].setup_func = setup;
		fresh[i].teardown_func = teardown;
	}
	return cmocka_run_group_tests(fresh, NULL, NULL);
}

// SPDX-License-Identifier: MIT
/* Damaged images: whatever is cut, altered or made up is refused by words. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "error.h"
#include "lib/image_maker.h"
#include "libsnap.h"
#include "util/util.h"

/* After ours: it makes a macro of fail, the member of struct failure_sink. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct image_maker m;
static int fd;
static char path[64];
static size_t largest; /* allocation of the library since it was 0 */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_malloc(size_t size)
{
	largest = max_u64(largest, size);
	return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	largest = max_u64(largest, n * size);
	return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	largest = max_u64(largest, size);
	return __real_realloc(p, size);
}

/* Open and read all that there is, but for the hole.  0 or the error. */
static int open_and_read(void)
{
	static uint8_t buf[SAMPLE_PAGES * PAGE_BYTES];
	struct snap_image_region r = {.size = sizeof(r)};
	struct snap_image *img = NULL;
	int err = snap_image_open(&img, path);

	for (uint32_t i = 0; !err && i < 2; i++) {
		err = snap_image_get_region(img, i, &r);
		if (!err)
			err = snap_image_read(img, i, 0, buf, r.length);
	}
	snap_image_close(img);
	return err;
}

static void assert_refused(const char *what, uint64_t at)
{
	for (int i = 0; i < 2; i++) {
		int err = i ? snap_image_verify(path) : open_and_read();

		if (err != -EBADMSG && err != -ENOTSUP)
			fail_msg("%s %zu: %s gives %d", what, (size_t)at,
				 i ? "verify" : "open", err);
		if (error_failure() != SNAP_FAILURE_IMAGE ||
		    (err == -EBADMSG &&
		     !strstr(error_text(), "damaged at byte")))
			fail_msg("%s %zu: %s", what, (size_t)at, error_text());
	}
}

/* Both ways of reading refuse the image of @m with these words. */
static void assert_refused_because(const char *why)
{
	maker_store(&m, fd, m.len);
	assert_refused(why, 0);
	assert_int_equal(open_and_read(), -EBADMSG);
	if (!strstr(error_text(), why))
		fail_msg("open does not say '%s': %s", why, error_text());
}

static void an_image_altered_anywhere_is_refused(void **state)
{
	for (uint64_t at = 0; at < m.len; at++) {
		uint8_t wrong = m.bytes[at] ^ (uint8_t)(1u << at % 8);

		/* Of long parts, a byte here and there. */
		if (at % 4096 > 136 && at % 127 != 0 && at % 4096 != 4095)
			continue;
		assert_int_equal(pwrite(fd, &wrong, 1, (off_t)at), 1);
		assert_refused("altered at", at);
		assert_int_equal(pwrite(fd, &m.bytes[at], 1, (off_t)at), 1);
	}
	assert_int_equal(open_and_read(), 0);
	assert_int_equal(snap_image_verify(path), 0);
}

static void a_zeroed_block_is_refused(void **state)
{
	static const uint8_t zeros[FORMAT_ALIGN];

	for (uint64_t at = 0; at < m.len; at += FORMAT_ALIGN) {
		assert_int_equal(pwrite(fd, zeros, sizeof(zeros), (off_t)at),
				 sizeof(zeros));
		assert_refused("zeroed at", at);
		assert_int_equal(
			pwrite(fd, m.bytes + at, FORMAT_ALIGN, (off_t)at),
			FORMAT_ALIGN);
	}
}

static void a_cut_image_is_incomplete(void **state)
{
	for (uint64_t len = 0; len < m.len; len += 1024) {
		maker_store(&m, fd, len);
		assert_refused("cut at", len);
		assert_int_equal(open_and_read(), -EBADMSG);
		assert_non_null(strstr(error_text(), "incomplete"));
		assert_int_equal(snap_image_verify(path), -EBADMSG);
		assert_non_null(strstr(error_text(), "incomplete"));
	}
}

static void bytes_behind_the_end_are_refused(void **state)
{
	maker_store(&m, fd, m.len);
	assert_int_equal(pwrite(fd, "", 1, (off_t)m.len), 1);
	assert_refused("longer by", 1);
	assert_int_equal(ftruncate(fd, (off_t)(m.len + FORMAT_ALIGN)), 0);
	assert_refused("longer by", FORMAT_ALIGN);
	maker_store(&m, fd, m.len);
	assert_int_equal(pwrite(fd, m.bytes, m.len, (off_t)m.len),
			 (ssize_t)m.len);
	assert_refused("twice", m.len);
}

/* An image of two regions of 16 pages with one frame as @how says, after one
 * that holds the first region's even half. */
static void make(const struct maker_frame *how,
		 const struct frame_extent *extents, uint32_t n)
{
	static const struct maker_frame none = {.codec = FRAME_CODEC_NONE};
	static const struct frame_extent half[] = {{0, 8, 0, FRAME_DATA}};

	maker_free(&m);
	maker_region(&m, "a", 16);
	maker_region(&m, "b", 16);
	maker_begin(&m, 1);
	maker_frame(&m, &none, half, 1);
	maker_frame(&m, how, extents, n);
	maker_finish(&m);
}

static const struct frame_extent rest[] = {{8, 8, 0, FRAME_DATA},
					   {0, 16, 1, FRAME_ZERO}};

static void each_page_must_be_there_exactly_once(void **state)
{
	static const struct {
		struct frame_extent extents[3];
		uint32_t n;
		const char *why;
	} cases[] = {
		{{{8, 8, 0, FRAME_DATA}}, 1, "page 0 of region b is missing"},
		{{{8, 7, 0, FRAME_DATA}, {0, 16, 1, FRAME_ZERO}},
		 2,
		 "page 15 of region a is missing"},
		{{{9, 7, 0, FRAME_DATA}, {0, 16, 1, FRAME_ZERO}},
		 2,
		 "page 8 of region a is missing"},
		{{{8, 8, 0, FRAME_DATA},
		  {0, 16, 1, FRAME_ZERO},
		  {7, 1, 0, FRAME_ZERO}},
		 3,
		 "page 7 of region a is in the image twice"},
		{{{8, 8, 0, FRAME_DATA},
		  {0, 16, 1, FRAME_ABSENT},
		  {0, 16, 1, FRAME_ABSENT}},
		 3,
		 "page 0 of region b is in the image twice"},
		{{{8, 9, 0, FRAME_DATA}}, 1, "behind the end of region a"},
		{{{17, 1, 0, FRAME_ZERO}}, 1, "behind the end of region a"},
		{{{UINT64_MAX, 2, 1, FRAME_ZERO}},
		 1,
		 "behind the end of region b"},
		{{{0, UINT32_MAX, 1, FRAME_ABSENT}},
		 1,
		 "behind the end of region b"},
		{{{8, 8, 0, FRAME_DATA}, {0, 16, 2, FRAME_ZERO}},
		 2,
		 "names region 2 of 2"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		make(&(struct maker_frame){0}, cases[i].extents, cases[i].n);
		assert_refused_because(cases[i].why);
	}
	make(&(struct maker_frame){0}, rest, 2);
	maker_store(&m, fd, m.len);
	assert_int_equal(snap_image_verify(path), 0);
}

static void a_frame_of_another_snapshot_is_refused(void **state)
{
	make(&(struct maker_frame){.tag_change = 1}, rest, 2);
	assert_refused_because("another snapshot");
}

static void a_frame_must_decompress_to_its_length(void **state)
{
	make(&(struct maker_frame){.codec = FRAME_CODEC_ZSTD}, rest, 2);
	maker_store(&m, fd, m.len);
	assert_int_equal(snap_image_verify(path), 0);
	make(&(struct maker_frame){FRAME_CODEC_ZSTD, -4096, 0, 0}, rest, 2);
	assert_refused_because("another length when decompressed");
	make(&(struct maker_frame){FRAME_CODEC_ZSTD, 64, 0, 0}, rest, 2);
	assert_refused_because("cannot be decompressed");
}

/* Sealed with right checksums, yet not what the frames say. */
static void a_lying_tail_is_refused(void **state)
{
	make(&(struct maker_frame){.pages_change = 1}, rest, 2);
	assert_refused_because("counts other pages than this frame");
	make(&(struct maker_frame){0}, rest, 2);
	m.totals.pages_absent++;
	maker_rewrite_tail(&m);
	assert_refused_because("counts other pages in all");
	m.totals.pages_absent--;
	m.entries[1].offset += 4096;
	maker_rewrite_tail(&m);
	assert_refused_because("in another place");
	m.entries[1].offset -= 4096;
	m.entries[0].header_checksum++;
	maker_rewrite_tail(&m);
	assert_refused_because("not the frame that the index means");
	m.entries[0].header_checksum--;
	m.footer.snapshot_tag++;
	maker_rewrite_tail(&m);
	assert_refused_because("footer is of another snapshot");
	m.footer.snapshot_tag--;
	m.count--;
	maker_rewrite_tail(&m);
	assert_refused_because("the index does not know what is here");
	m.count += 2;
	m.entries[2] = m.entries[1];
	maker_rewrite_tail(&m);
	assert_refused_because("a frame has no room");
}

/* The numbers promise what no file of that size has. */
static void made_up_sizes_take_no_memory(void **state)
{
	maker_free(&m);
	for (int i = 0; i < MAKER_REGIONS; i++)
		maker_region(&m, (char[]){'a' + (char)i, 0}, UINT32_MAX);
	maker_state(&m, "big", NULL, 0);
	maker_begin(&m, 1);
	maker_frame(&m, &(struct maker_frame){0},
		    &(struct frame_extent){0, 1, 0, FRAME_DATA}, 1);
	maker_finish(&m);
	largest = 0;
	assert_refused_because("page 1 of region a is missing");
	assert_in_range(largest, 1, FRAME_RAW_MAX);

	/* A device state of 1 GiB in a file of some KiB. */
	memcpy(m.bytes + 128 + MAKER_REGIONS * 96 + 64,
	       (uint8_t[]){0, 0, 0, 0x40, 0, 0, 0, 0}, 8);
	memcpy(m.bytes + 24, (uint8_t[]){0, 0x10, 0, 0x40, 0, 0, 0, 0}, 8);
	memset(m.bytes + 32, 0, 8);
	memcpy(m.bytes + 32,
	       &(uint64_t){format_checksum(m.bytes, m.head.table_length)}, 8);
	largest = 0;
	assert_refused_because("incomplete");
	/* The decoder's frame, and a stream's steps. */
	assert_in_range(largest, 1, FRAME_RAW_MAX);
}

static int setup(void **state)
{
	maker_sample(&m);
	fd = memfd_create("image", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	maker_store(&m, fd, m.len);
	return fd < 0;
}

static int teardown(void **state)
{
	close(fd);
	maker_free(&m);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_image_altered_anywhere_is_refused),
		cmocka_unit_test(a_zeroed_block_is_refused),
		cmocka_unit_test(a_cut_image_is_incomplete),
		cmocka_unit_test(bytes_behind_the_end_are_refused),
		cmocka_unit_test(each_page_must_be_there_exactly_once),
		cmocka_unit_test(a_frame_of_another_snapshot_is_refused),
		cmocka_unit_test(a_frame_must_decompress_to_its_length),
		cmocka_unit_test(a_lying_tail_is_refused),
		cmocka_unit_test(made_up_sizes_take_no_memory),
	};
	struct CMUnitTest fresh[ARRAY_SIZE(tests)];

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		fresh[i] = tests[i];
		fresh[i].setup_func = setup;
		fresh[i].teardown_func = teardown;
	}
	return cmocka_run_group_tests(fresh, NULL, NULL);
}

// SPDX-License-Identifier: MIT
/*
 * Exactness: every kind of memory, layout, writer, sink and option, the image
 * compared with the RAM at the snapshot point and the live RAM with what the
 * writers wrote.  The table is the test; tests/lib/scene.c plays it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

#include "lib/scene.h"

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define ZSTD .options.compress = SNAP_COMPRESS_ZSTD
#define NO_URING .options.flags = SNAP_NO_IO_URING
#define WRITERS .threads = 3, .nap_us = 50
#define SLOW                                                                   \
	.ram_len = 48 * MB, .options.max_buffer = 16 * MB,                     \
	.options.bandwidth = 48 * MB

/* Mappings that differ in their advice stay apart in the kernel. */
static void split_by_advice(struct scene *sc)
{
	for (size_t at = 0; at < sc->ram.len; at += 8 * MB)
		assert_int_equal(
			madvise(sc->ram.addr + at, 4 * MB, MADV_DONTFORK), 0);
}

/* Two mprotect() calls leave what one mmap() made as it was, in pieces that
 * the kernel may or may not join again. */
static void split_by_mprotect(struct scene *sc)
{
	uint8_t *middle = sc->ram.addr + sc->ram.len / 2;

	assert_int_equal(mprotect(middle, 3 * 4096, PROT_READ), 0);
	assert_int_equal(madvise(middle + 4096, 4096, MADV_DONTDUMP), 0);
	assert_int_equal(mprotect(middle, 3 * 4096, PROT_READ | PROT_WRITE), 0);
}

/* Swapping is off on many machines; what pages out is then nothing at all. */
static void page_out(struct scene *sc)
{
	madvise(sc->ram.addr, sc->ram.len / 2, MADV_PAGEOUT);
}

static const struct scene_config cases[] = {
	/* each backing: idle, then random, then sequential writers */
	{.name = "backing_anon_idle"},
	{.name = "backing_anon_random", WRITERS},
	{.name = "backing_anon_sequential",
	 WRITERS,
	 .pattern = MUTATE_SEQUENTIAL},
	{.name = "backing_anon_hot", WRITERS, .pattern = MUTATE_HOT},
	{.name = "backing_anon_one_writer", .threads = 1},
	{.name = "backing_anon_saturated", .threads = 4},
	{.name = "backing_thp_idle", .kind = RAM_THP},
	{.name = "backing_thp_random", .kind = RAM_THP, WRITERS},
	{.name = "backing_thp_sequential",
	 .kind = RAM_THP,
	 WRITERS,
	 .pattern = MUTATE_SEQUENTIAL},
	{.name = "backing_memfd_idle", .kind = RAM_MEMFD},
	{.name = "backing_memfd_random", .kind = RAM_MEMFD, WRITERS},
	{.name = "backing_memfd_sequential",
	 .kind = RAM_MEMFD,
	 WRITERS,
	 .pattern = MUTATE_SEQUENTIAL},
	{.name = "backing_shared_anonymous", .kind = RAM_SHARED, WRITERS},
	{.name = "backing_hugetlb_idle", .kind = RAM_HUGETLB},
	{.name = "backing_hugetlb_random", .kind = RAM_HUGETLB, WRITERS},
	{.name = "backing_hugetlb_memfd_random",
	 .kind = RAM_HUGETLB_MEMFD,
	 WRITERS},

	/* holes: found, not read, not allocated; then written to meanwhile */
	{.name = "holes_anon_idle", .fill = FILL_FEW},
	{.name = "holes_anon_half_idle", .fill = FILL_HALF},
	{.name = "holes_anon_empty_idle", .fill = FILL_NONE},
	{.name = "holes_memfd_idle", .kind = RAM_MEMFD, .fill = FILL_FEW},
	{.name = "holes_memfd_half_idle", .kind = RAM_MEMFD, .fill = FILL_HALF},
	{.name = "holes_memfd_empty_idle",
	 .kind = RAM_MEMFD,
	 .fill = FILL_NONE},
	{.name = "holes_shared_idle", .kind = RAM_SHARED, .fill = FILL_FEW},
	{.name = "holes_thp_idle", .kind = RAM_THP, .fill = FILL_HUGE},
	{.name = "holes_thp_empty_idle", .kind = RAM_THP, .fill = FILL_NONE},
	{.name = "holes_anon_written",
	 .fill = FILL_FEW,
	 WRITERS,
	 .asleep = true},
	{.name = "holes_anon_half_written",
	 .fill = FILL_HALF,
	 WRITERS,
	 .asleep = true},
	{.name = "holes_thp_written",
	 .kind = RAM_THP,
	 .fill = FILL_HUGE,
	 WRITERS,
	 .asleep = true},
	{.name = "holes_memfd_written",
	 .kind = RAM_MEMFD,
	 .fill = FILL_FEW,
	 WRITERS,
	 .asleep = true},
	{.name = "holes_hugetlb_written",
	 .kind = RAM_HUGETLB,
	 .fill = FILL_NONE,
	 WRITERS,
	 .asleep = true},
	{.name = "holes_hugetlb_memfd_empty_idle",
	 .kind = RAM_HUGETLB_MEMFD,
	 .fill = FILL_NONE},

	/* protected beforehand, while the writers write */
	{.name = "prearm_anon_idle", .prearm = true},
	{.name = "prearm_anon_random", .prearm = true, WRITERS},
	{.name = "prearm_anon_sequential",
	 .prearm = true,
	 WRITERS,
	 .pattern = MUTATE_SEQUENTIAL},
	{.name = "prearm_anon_hot",
	 .prearm = true,
	 .threads = 4,
	 .pattern = MUTATE_HOT},
	{.name = "prearm_anon_saturated", .prearm = true, .threads = 4},
	{.name = "prearm_anon_holes",
	 .prearm = true,
	 .fill = FILL_FEW,
	 WRITERS,
	 .asleep = true},
	{.name = "prearm_thp", .prearm = true, .kind = RAM_THP, WRITERS},
	{.name = "prearm_thp_holes",
	 .prearm = true,
	 .kind = RAM_THP,
	 .fill = FILL_HUGE,
	 WRITERS},
	{.name = "prearm_memfd_random",
	 .prearm = true,
	 .kind = RAM_MEMFD,
	 WRITERS},
	{.name = "prearm_memfd_hot",
	 .prearm = true,
	 .kind = RAM_MEMFD,
	 .threads = 4,
	 .pattern = MUTATE_HOT},
	{.name = "prearm_memfd_holes",
	 .prearm = true,
	 .kind = RAM_MEMFD,
	 .fill = FILL_FEW,
	 WRITERS},
	{.name = "prearm_hugetlb",
	 .prearm = true,
	 .kind = RAM_HUGETLB,
	 WRITERS},
	{.name = "prearm_odd_ends",
	 .prearm = true,
	 .regions = 1,
	 .region_offset = 3 * 4096,
	 .region_len = 32 * MB - 8 * 4096,
	 WRITERS},
	{.name = "prearm_many_regions",
	 .prearm = true,
	 .regions = 200,
	 .region_len = 12 * KB,
	 .region_stride = 64 * KB,
	 .region_offset = 4096,
	 WRITERS},
	{.name = "prearm_split_by_advice",
	 .prearm = true,
	 .dress = split_by_advice,
	 WRITERS},
	{.name = "prearm_paged_out",
	 .prearm = true,
	 .dress = page_out,
	 WRITERS},
	{.name = "prearm_series", .prearm = true, .threads = 3, .rounds = 4},
	{.name = "prearm_two_at_once",
	 .prearm = true,
	 .regions = 2,
	 .region_len = 16 * MB,
	 .region_stride = 16 * MB,
	 .at_once = 2,
	 WRITERS},
	{.name = "prearm_slow", .prearm = true, SLOW, .threads = 3},

	/* layouts */
	{.name = "layout_one_page",
	 .regions = 1,
	 .region_offset = 5 * 4096,
	 .region_len = 4096,
	 WRITERS},
	{.name = "layout_one_page_of_thp",
	 .kind = RAM_THP,
	 .regions = 1,
	 .region_offset = 7 * 4096,
	 .region_len = 4096,
	 WRITERS,
	 .cut_huge_pages = 1},
	{.name = "layout_one_page_of_memfd",
	 .kind = RAM_MEMFD,
	 .regions = 1,
	 .region_len = 4096,
	 WRITERS},
	{.name = "layout_many_regions",
	 .regions = 200,
	 .region_len = 12 * KB,
	 .region_stride = 64 * KB,
	 .region_offset = 4096,
	 WRITERS},
	{.name = "layout_many_regions_of_memfd",
	 .kind = RAM_MEMFD,
	 .regions = 200,
	 .region_len = 12 * KB,
	 .region_stride = 64 * KB,
	 WRITERS},
	{.name = "layout_adjacent_regions",
	 .regions = 16,
	 .region_len = 2 * MB,
	 .region_stride = 2 * MB,
	 WRITERS},
	/* More than two of the chunks in which arm.c protects, and two ends. */
	{.name = "layout_armed_by_threads",
	 .ram_len = 200 * MB,
	 .regions = 1,
	 .region_offset = 3 * 4096,
	 .region_len = 200 * MB - 8 * 4096,
	 WRITERS},
	{.name = "layout_odd_ends",
	 .regions = 1,
	 .region_offset = 3 * 4096,
	 .region_len = 32 * MB - 8 * 4096,
	 WRITERS},
	{.name = "layout_odd_ends_of_memfd",
	 .kind = RAM_MEMFD,
	 .regions = 1,
	 .region_offset = 511 * 4096,
	 .region_len = 20 * MB + 4096,
	 WRITERS},
	{.name = "layout_odd_ends_of_thp",
	 .kind = RAM_THP,
	 .regions = 1,
	 .region_offset = 3 * 4096,
	 .region_len = 32 * MB - 8 * 4096,
	 WRITERS,
	 .cut_huge_pages = 2},
	{.name = "layout_thp_cut_in_the_middle",
	 .kind = RAM_THP,
	 .regions = 2,
	 .region_len = 15 * MB,
	 .region_stride = 15 * MB,
	 WRITERS,
	 .cut_huge_pages = 2},
	{.name = "layout_mappings_split_by_advice",
	 .dress = split_by_advice,
	 WRITERS},
	{.name = "layout_memfd_split_by_advice",
	 .kind = RAM_MEMFD,
	 .dress = split_by_advice,
	 WRITERS},
	{.name = "layout_mappings_split_by_mprotect",
	 .dress = split_by_mprotect,
	 WRITERS},
	{.name = "layout_thp_split_by_mprotect",
	 .kind = RAM_THP,
	 .dress = split_by_mprotect,
	 WRITERS},
	{.name = "layout_paged_out", .dress = page_out, WRITERS},

	/* options */
	{.name = "option_zstd", ZSTD, WRITERS},
	{.name = "option_zstd_of_thp", .kind = RAM_THP, ZSTD, WRITERS},
	{.name = "option_zstd_level_3_one_worker",
	 ZSTD,
	 .options.compress_level = 3,
	 .options.workers = 1,
	 WRITERS},
	{.name = "option_zstd_fast_of_memfd",
	 .kind = RAM_MEMFD,
	 ZSTD,
	 .options.compress_level = -5,
	 WRITERS},
	{.name = "option_zstd_holes", .fill = FILL_HALF, ZSTD, WRITERS},
	{.name = "option_without_io_uring", NO_URING, WRITERS},
	{.name = "option_zstd_without_io_uring", ZSTD, NO_URING, WRITERS},
	{.name = "option_without_direct",
	 .options.flags = SNAP_NO_DIRECT,
	 WRITERS},
	{.name = "option_without_preallocation",
	 .options.flags = SNAP_NO_PREALLOCATE,
	 WRITERS},
	{.name = "option_plain_everything",
	 .options.flags =
		 SNAP_NO_PREALLOCATE | SNAP_NO_DIRECT | SNAP_NO_IO_URING,
	 WRITERS},
	{.name = "option_three_workers", .options.workers = 3, WRITERS},

	/* back-pressure: a slow sink, a small pool, writers that never rest */
	{.name = "slow_of_anon", SLOW, .threads = 3, .expect_pool_waits = 1},
	{.name = "slow_of_thp",
	 .kind = RAM_THP,
	 SLOW,
	 .threads = 3,
	 .expect_pool_waits = 1},
	{.name = "slow_of_memfd",
	 .kind = RAM_MEMFD,
	 SLOW,
	 .threads = 3,
	 .expect_pool_waits = 1},
	{.name = "slow_zstd",
	 .options.max_buffer = 16 * MB,
	 .options.bandwidth = 4 * MB,
	 .threads = 3,
	 ZSTD},
	{.name = "slow_of_hugetlb",
	 .kind = RAM_HUGETLB,
	 .options.max_buffer = 16 * MB,
	 .options.bandwidth = 32 * MB,
	 .threads = 2,
	 .expect_pool_waits = 1},

	/* sinks */
	{.name = "sink_pipe", .sink = SINK_PIPE, WRITERS},
	{.name = "sink_pipe_zstd", .sink = SINK_PIPE, ZSTD, WRITERS},
	{.name = "sink_pipe_holes",
	 .sink = SINK_PIPE,
	 .fill = FILL_HALF,
	 WRITERS},
	{.name = "sink_pipe_limited",
	 .kind = RAM_THP,
	 .sink = SINK_PIPE,
	 .options.max_buffer = 16 * MB,
	 .options.bandwidth = 64 * MB,
	 .threads = 2},
	{.name = "sink_open_file", .sink = SINK_FD_FILE, WRITERS},
	{.name = "sink_null_sink", .sink = SINK_NULL, WRITERS},
	{.name = "sink_null_sink_zstd",
	 .kind = RAM_MEMFD,
	 .sink = SINK_NULL,
	 ZSTD,
	 WRITERS},

	/* several snapshots */
	{.name = "series_one_after_another", WRITERS, .rounds = 3},
	{.name = "series_one_after_another_thp",
	 .kind = RAM_THP,
	 WRITERS,
	 .rounds = 3},
	{.name = "series_one_after_another_memfd",
	 .kind = RAM_MEMFD,
	 WRITERS,
	 .rounds = 2},
	{.name = "series_two_at_once",
	 .regions = 2,
	 .region_len = 16 * MB,
	 .region_stride = 16 * MB,
	 .at_once = 2,
	 WRITERS},
	{.name = "series_two_at_once_of_thp",
	 .kind = RAM_THP,
	 .regions = 2,
	 .region_len = 16 * MB,
	 .region_stride = 16 * MB,
	 .at_once = 2,
	 WRITERS},
};

static void play(void **state)
{
	scene_play(*state);
}

/* An argument is a pattern of names, for ctest to run them by kind. */
int main(int argc, char **argv)
{
	static struct CMUnitTest tests[COUNT(cases)];

	for (size_t i = 0; i < COUNT(cases); i++)
		tests[i] =
			(struct CMUnitTest){.name = cases[i].name,
					    .test_func = play,
					    .initial_state = (void *)&cases[i]};
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	if (argc > 2)
		cmocka_set_skip_filter(argv[2]);
	return scene_exit_code(
		cmocka_run_group_tests_name("exact", tests, NULL, NULL));
}

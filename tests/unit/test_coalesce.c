// SPDX-License-Identifier: MIT
/* The unprotect policy: a table of states and the ranges that come of them. */
#include <string.h>

#include "coalesce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A region of two and a half blocks that begins half a block into one. */
#define START (BLOCK_BYTES * 5 + BLOCK_BYTES / 2)
#define PAGES (BLOCK_PAGES * 2 + BLOCK_PAGES / 2)

static struct region r;
static _Atomic uint8_t kinds[4];

static int setup(void **state)
{
	(void)state;
	memset(&r, 0, sizeof(r));
	r.start = START;
	r.length = PAGES * PAGE_BYTES;
	r.page_size = PAGE_BYTES;
	memset((void *)kinds, BLOCK_SMALL, sizeof(kinds));
	r.blocks = kinds;
	return pagestate_init(&r.ps, PAGES);
}

static int teardown(void **state)
{
	(void)state;
	pagestate_free(&r.ps);
	return 0;
}

static void save(uint64_t first, uint64_t count)
{
	assert_int_equal(pagestate_claim(&r.ps, first, count), count);
	pagestate_saved(&r.ps, first, count);
}

static void assert_run(struct page_run run, uint64_t first, uint64_t count)
{
	assert_int_equal(run.first, first);
	assert_int_equal(run.count, count);
}

static void blocks_follow_the_address_not_the_region(void **state)
{
	(void)state;
	assert_run(region_block(&r, 0), 0, BLOCK_PAGES / 2);
	assert_run(region_block(&r, BLOCK_PAGES / 2), BLOCK_PAGES / 2,
		   BLOCK_PAGES);
	assert_run(region_block(&r, PAGES - 1), BLOCK_PAGES + BLOCK_PAGES / 2,
		   BLOCK_PAGES);
}

static void nothing_saved_gives_no_range(void **state)
{
	(void)state;
	assert_int_equal(coalesce_next(&r, 0, PAGES).count, 0);
}

static void a_whole_block_is_one_range(void **state)
{
	struct page_run block = region_block(&r, BLOCK_PAGES);

	(void)state;
	save(block.first, block.count);
	assert_run(coalesce_next(&r, block.first, block.first + block.count),
		   block.first, BLOCK_PAGES);
}

static void a_range_holds_no_page_that_is_open(void **state)
{
	(void)state;
	save(0, 100);
	pagestate_open(&r.ps, 40, 1);
	assert_run(coalesce_next(&r, 0, PAGES), 0, 40);
	assert_run(coalesce_next(&r, 40, PAGES), 41, 59);
}

static void a_range_holds_no_page_that_is_not_saved(void **state)
{
	(void)state;
	save(0, 10);
	assert_int_equal(pagestate_claim(&r.ps, 10, 1), 1);
	save(11, 5);
	assert_run(coalesce_next(&r, 0, PAGES), 0, 10);
	assert_run(coalesce_next(&r, 10, PAGES), 11, 5);
}

static void a_waiter_takes_its_saved_neighbours_along(void **state)
{
	(void)state;
	save(20, 30);
	assert_run(coalesce_around(&r, 33), 20, 30);
}

static void a_waiter_does_not_reach_into_the_next_block(void **state)
{
	(void)state;
	save(BLOCK_PAGES / 2 - 8, 16);
	assert_run(coalesce_around(&r, BLOCK_PAGES / 2 - 1),
		   BLOCK_PAGES / 2 - 8, 8);
	assert_run(coalesce_around(&r, BLOCK_PAGES / 2), BLOCK_PAGES / 2, 8);
}

static void a_waiter_on_an_open_page_gets_that_page(void **state)
{
	(void)state;
	save(0, 64);
	pagestate_open(&r.ps, 0, 64);
	assert_run(coalesce_around(&r, 7), 7, 1);
}

/* The block that begins at the region's half-block. */
static struct page_run huge_block(void)
{
	struct page_run block = region_block(&r, BLOCK_PAGES / 2);

	atomic_store(region_block_kind(&r, block.first), BLOCK_HUGE);
	return block;
}

static void a_huge_page_is_one_range_though_a_part_is_open(void **state)
{
	struct page_run block = huge_block();

	(void)state;
	save(block.first, block.count);
	pagestate_open(&r.ps, block.first, 16);
	pagestate_open(&r.ps, block.first + 100, 32);
	assert_run(coalesce_next(&r, block.first + 8, PAGES), block.first,
		   block.count);
	assert_run(coalesce_around(&r, block.first + 5), block.first,
		   block.count);
}

static void a_huge_page_saved_in_part_gives_no_range(void **state)
{
	struct page_run block = huge_block();

	(void)state;
	save(block.first, block.count - 1);
	assert_int_equal(coalesce_next(&r, 0, PAGES).count, 0);
	save(block.first + block.count + 3, 2);
	assert_run(coalesce_next(&r, 0, PAGES), block.first + block.count + 3,
		   2);
}

static void a_range_ends_with_its_block(void **state)
{
	(void)state;
	save(0, PAGES);
	assert_run(coalesce_next(&r, 0, PAGES), 0, BLOCK_PAGES / 2);
	assert_run(coalesce_next(&r, BLOCK_PAGES / 2, PAGES), BLOCK_PAGES / 2,
		   BLOCK_PAGES);
}

static void a_deadline_comes_when_it_is_reached(void **state)
{
	(void)state;
	assert_false(coalesce_due(1000, 1000 + COALESCE_DEADLINE_NS - 1));
	assert_true(coalesce_due(1000, 1000 + COALESCE_DEADLINE_NS));
}

#define with_region(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_region(blocks_follow_the_address_not_the_region),
		with_region(nothing_saved_gives_no_range),
		with_region(a_whole_block_is_one_range),
		with_region(a_range_holds_no_page_that_is_open),
		with_region(a_range_holds_no_page_that_is_not_saved),
		with_region(a_waiter_takes_its_saved_neighbours_along),
		with_region(a_waiter_does_not_reach_into_the_next_block),
		with_region(a_waiter_on_an_open_page_gets_that_page),
		with_region(a_huge_page_is_one_range_though_a_part_is_open),
		with_region(a_huge_page_saved_in_part_gives_no_range),
		with_region(a_range_ends_with_its_block),
		with_region(a_deadline_comes_when_it_is_reached),
	};

	return cmocka_run_group_tests_name("coalesce", tests, NULL, NULL);
}

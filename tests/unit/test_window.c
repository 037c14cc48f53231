// SPDX-License-Identifier: MIT
/* How much is copied around a fault: gaps and heat, and the windows of them. */
#include <string.h>

#include "window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A region that begins three pages before a border of 64 KiB. */
#define START (BLOCK_BYTES * 5 - 3 * PAGE_BYTES)
#define PAGES 1000u

static const struct region r = {
	.start = START,
	.length = PAGES * PAGE_BYTES,
	.page_size = PAGE_BYTES,
};

/* @n faults, each @gap after the answer to the one before. */
static struct window after_faults(unsigned n, uint64_t gap)
{
	struct window w = {0};
	uint64_t now = 1000000;

	while (n--) {
		window_fault(&w, now);
		now += 20000;
		window_answered(&w, now);
		now += gap;
	}
	return w;
}

static void assert_window(const struct window *w, uint64_t page, unsigned heat,
			  enum window_room room, struct page_run expected)
{
	struct page_run run = window_around(w, &r, page, heat, room);

	assert_int_equal(run.first, expected.first);
	assert_int_equal(run.count, expected.count);
}

static void the_first_fault_takes_one_page(void **state)
{
	struct window w = after_faults(1, 0);

	(void)state;
	assert_window(&w, 100, 0, WINDOW_ROOM_AMPLE, (struct page_run){100, 1});
}

static void rare_faults_take_one_page(void **state)
{
	struct window w = after_faults(100, WINDOW_OFTEN_NS * 2);

	(void)state;
	assert_window(&w, 100, 0, WINDOW_ROOM_AMPLE, (struct page_run){100, 1});
}

static void frequent_faults_take_64_kib(void **state)
{
	struct window w = after_faults(100, WINDOW_DENSE_NS * 2);

	(void)state;
	assert_window(&w, 100, 0, WINDOW_ROOM_AMPLE, (struct page_run){99, 16});
}

static void dense_faults_take_256_kib(void **state)
{
	struct window w = after_faults(100, WINDOW_DENSE_NS / 2);

	(void)state;
	assert_window(&w, 100, 0, WINDOW_ROOM_AMPLE, (struct page_run){67, 64});
}

static void faults_that_waited_for_another_are_dense(void **state)
{
	struct window w = after_faults(1, 0);
	unsigned i;

	(void)state;
	for (i = 0; i < 60; i++)
		window_fault(&w, 1000000); /* before the answer */
	assert_window(&w, 100, 0, WINDOW_ROOM_AMPLE, (struct page_run){67, 64});
}

static void a_pause_of_the_guest_shrinks_the_window(void **state)
{
	struct window w = after_faults(100, WINDOW_DENSE_NS / 2);

	(void)state;
	window_fault(&w, w.answered_ns + 8 * WINDOW_OFTEN_NS);
	assert_window(&w, 100, 0, WINDOW_ROOM_AMPLE, (struct page_run){100, 1});
}

static void a_block_that_faulted_before_gets_a_larger_window(void **state)
{
	struct window w = after_faults(1, 0);

	(void)state;
	assert_window(&w, 100, WINDOW_HEAT_MIDDLE, WINDOW_ROOM_AMPLE,
		      (struct page_run){99, 16});
	assert_window(&w, 100, WINDOW_HEAT_LARGE, WINDOW_ROOM_AMPLE,
		      (struct page_run){67, 64});
	assert_window(&w, 100, UINT8_MAX, WINDOW_ROOM_AMPLE,
		      (struct page_run){67, 64});
}

static void few_buffers_make_it_small(void **state)
{
	struct window w = after_faults(100, 0);

	(void)state;
	assert_window(&w, 100, 9, WINDOW_ROOM_SHORT, (struct page_run){99, 16});
	assert_window(&w, 100, 9, WINDOW_ROOM_NONE, (struct page_run){100, 1});
}

static void windows_end_where_the_region_does(void **state)
{
	struct window w = after_faults(100, 0);

	(void)state;
	assert_window(&w, 0, 0, WINDOW_ROOM_AMPLE, (struct page_run){0, 3});
	assert_window(&w, PAGES - 1, 0, WINDOW_ROOM_AMPLE,
		      (struct page_run){963, 37});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_fault_takes_one_page),
		cmocka_unit_test(rare_faults_take_one_page),
		cmocka_unit_test(frequent_faults_take_64_kib),
		cmocka_unit_test(dense_faults_take_256_kib),
		cmocka_unit_test(faults_that_waited_for_another_are_dense),
		cmocka_unit_test(a_pause_of_the_guest_shrinks_the_window),
		cmocka_unit_test(
			a_block_that_faulted_before_gets_a_larger_window),
		cmocka_unit_test(few_buffers_make_it_small),
		cmocka_unit_test(windows_end_where_the_region_does),
	};

	return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}

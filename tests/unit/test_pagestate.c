// SPDX-License-Identifier: MIT
/* Page states: who gets a claim, and what a waiter leaves behind. */
#include <pthread.h>
#include <stdlib.h>

#include "pagestate.h"
#include "util/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PAGES 100u /* more than six words of sixteen, the last one cut */

static struct pagestate ps;

static int setup(void **state)
{
	(void)state;
	return pagestate_init(&ps, PAGES);
}

static int teardown(void **state)
{
	(void)state;
	pagestate_free(&ps);
	return 0;
}

static void a_new_page_is_armed(void **state)
{
	(void)state;
	for (uint64_t p = 0; p < PAGES; p++)
		assert_int_equal(pagestate_get(&ps, p), PAGE_ARMED);
}

static void a_claim_is_granted_once(void **state)
{
	(void)state;
	assert_int_equal(pagestate_claim(&ps, 10, 30), 30);
	assert_int_equal(pagestate_claim(&ps, 10, 1), 0);
	assert_int_equal(pagestate_claim(&ps, 39, 1), 0);
	assert_int_equal(pagestate_claim(&ps, 40, 1), 1);
}

static void a_claim_ends_at_the_first_page_that_is_taken(void **state)
{
	(void)state;
	assert_int_equal(pagestate_claim(&ps, 20, 1), 1);
	assert_int_equal(pagestate_claim(&ps, 3, 90), 17);
	assert_int_equal(pagestate_get(&ps, 19), PAGE_COPYING);
	assert_int_equal(pagestate_get(&ps, 21), PAGE_ARMED);
}

static void a_claim_ends_with_the_region(void **state)
{
	(void)state;
	assert_int_equal(pagestate_claim(&ps, 90, 512), 10);
}

static void
only_a_page_that_is_being_copied_can_be_stolen_and_once(void **state)
{
	(void)state;
	assert_int_equal(pagestate_steal(&ps, 5, 1), 0);
	assert_int_equal(pagestate_claim(&ps, 0, 32), 32);
	assert_int_equal(pagestate_steal(&ps, 30, 10), 2);
	assert_int_equal(pagestate_steal(&ps, 30, 1), 0);
	assert_int_equal(pagestate_get(&ps, 30), PAGE_COPYING);
	pagestate_saved(&ps, 0, 30);
	assert_int_equal(pagestate_steal(&ps, 5, 1), 0);
}

static void the_claimer_loses_what_a_thief_has_saved_already(void **state)
{
	uint64_t lost[2] = {0};

	(void)state;
	pagestate_claim(&ps, 0, 80);
	assert_int_equal(pagestate_steal(&ps, 3, 1), 1);
	assert_int_equal(pagestate_steal(&ps, 60, 10), 10);
	pagestate_saved(&ps, 3, 1);
	pagestate_saved(&ps, 60, 10);
	pagestate_open(&ps, 60, 5);
	assert_int_equal(pagestate_saved_or_lost(&ps, 0, 80, lost), 11);
	assert_int_equal(lost[0], (uint64_t)1 << 3 | (uint64_t)0xf << 60);
	assert_int_equal(lost[1], 0x3f);
	assert_int_equal(pagestate_get(&ps, 3), PAGE_SAVED);
	assert_int_equal(pagestate_get(&ps, 60), PAGE_OPEN);
	assert_int_equal(pagestate_get(&ps, 65), PAGE_SAVED);
	assert_true(pagestate_all_saved(&ps, 0, 80));
}

static void the_claimer_leaves_what_a_thief_still_copies(void **state)
{
	uint64_t lost[1] = {0};

	(void)state;
	pagestate_claim(&ps, 10, 20);
	assert_int_equal(pagestate_steal(&ps, 12, 2), 2);
	assert_int_equal(pagestate_saved_or_lost(&ps, 10, 20, lost), 2);
	assert_int_equal(lost[0], 0xc);
	assert_int_equal(pagestate_get(&ps, 12), PAGE_COPYING);
	assert_int_equal(pagestate_get(&ps, 14), PAGE_SAVED);
	pagestate_saved(&ps, 12, 2);
	assert_true(pagestate_all_saved(&ps, 10, 20));
}

static void the_bits_of_lost_pages_fit_any_start(void **state)
{
	(void)state;
	for (uint64_t first = 0; first < 20; first++) {
		uint64_t lost[2] = {0};

		pagestate_free(&ps);
		assert_int_equal(pagestate_init(&ps, PAGES), 0);
		pagestate_claim(&ps, first, 80);
		for (uint64_t i = 0; i < 80; i += 7)
			assert_int_equal(pagestate_steal(&ps, first + i, 1), 1);
		assert_int_equal(pagestate_saved_or_lost(&ps, first, 80, lost),
				 12);
		for (uint64_t i = 0; i < 80; i++)
			assert_int_equal(lost[i / 64] >> i % 64 & 1,
					 i % 7 == 0);
	}
}

static void only_saved_pages_are_opened(void **state)
{
	(void)state;
	pagestate_claim(&ps, 0, 20);
	pagestate_saved(&ps, 0, 10);
	pagestate_open(&ps, 0, PAGES);
	assert_int_equal(pagestate_get(&ps, 9), PAGE_OPEN);
	assert_int_equal(pagestate_get(&ps, 10), PAGE_COPYING);
	assert_int_equal(pagestate_get(&ps, 20), PAGE_ARMED);
}

static void a_run_and_a_search_stop_where_the_state_changes(void **state)
{
	(void)state;
	pagestate_claim(&ps, 0, 64);
	pagestate_saved(&ps, 0, 64);
	pagestate_open(&ps, 0, 48);
	assert_int_equal(pagestate_find(&ps, 0, PAGES, PAGE_SAVED), 48);
	assert_int_equal(pagestate_run(&ps, 48, PAGES, PAGE_SAVED), 16);
	assert_int_equal(pagestate_find(&ps, 0, PAGES, PAGE_ARMED), 64);
	assert_int_equal(pagestate_find(&ps, 0, 64, PAGE_ARMED), 64);
	assert_true(pagestate_all_saved(&ps, 0, 64));
	assert_false(pagestate_all_saved(&ps, 0, 65));
}

/* Several threads claim all pages, one by one and in runs. */
struct claimer {
	pthread_t thread;
	uint64_t step, got;
};

static void *claim_all(void *arg)
{
	struct claimer *c = arg;
	uint64_t n;

	for (uint64_t p = 0; p < PAGES; p += c->step) {
		n = pagestate_claim(&ps, p, c->step);
		c->got += n;
		if (n)
			pagestate_saved(&ps, p, n);
	}
	return NULL;
}

static void claims_of_racing_threads_add_up(void **state)
{
	struct claimer c[4] = {
		{.step = 1}, {.step = 3}, {.step = 16}, {.step = 1}};
	uint64_t sum;

	(void)state;
	for (int round = 0; round < 200; round++) {
		pagestate_free(&ps);
		assert_int_equal(pagestate_init(&ps, PAGES), 0);
		sum = 0;
		for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
			c[i].got = 0;
			assert_int_equal(pthread_create(&c[i].thread, NULL,
							claim_all, &c[i]),
					 0);
		}
		for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
			pthread_join(c[i].thread, NULL);
			sum += c[i].got;
		}
		assert_int_equal(sum, PAGES);
		assert_true(pagestate_all_saved(&ps, 0, PAGES));
	}
}

#define with_pages(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_pages(a_new_page_is_armed),
		with_pages(a_claim_is_granted_once),
		with_pages(a_claim_ends_at_the_first_page_that_is_taken),
		with_pages(a_claim_ends_with_the_region),
		with_pages(
			only_a_page_that_is_being_copied_can_be_stolen_and_once),
		with_pages(the_claimer_loses_what_a_thief_has_saved_already),
		with_pages(the_claimer_leaves_what_a_thief_still_copies),
		with_pages(the_bits_of_lost_pages_fit_any_start),
		with_pages(only_saved_pages_are_opened),
		with_pages(a_run_and_a_search_stop_where_the_state_changes),
		with_pages(claims_of_racing_threads_add_up),
	};

	return cmocka_run_group_tests_name("pagestate", tests, NULL, NULL);
}

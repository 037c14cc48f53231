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

static void a_waiter_is_told_of_once_and_only_while_the_copy_runs(void **state)
{
	(void)state;
	assert_int_equal(pagestate_wait(&ps, 5), PAGE_ARMED);
	assert_int_equal(pagestate_claim(&ps, 0, 32), 32);
	assert_int_equal(pagestate_wait(&ps, 5), PAGE_COPYING);
	assert_int_equal(pagestate_get(&ps, 5), PAGE_COPYING);
	assert_true(pagestate_saved(&ps, 0, 16));
	assert_false(pagestate_saved(&ps, 16, 16));
	assert_int_equal(pagestate_wait(&ps, 5), PAGE_SAVED);
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
			a_waiter_is_told_of_once_and_only_while_the_copy_runs),
		with_pages(only_saved_pages_are_opened),
		with_pages(a_run_and_a_search_stop_where_the_state_changes),
		with_pages(claims_of_racing_threads_add_up),
	};

	return cmocka_run_group_tests_name("pagestate", tests, NULL, NULL);
}

// SPDX-License-Identifier: MIT
/* The latency histogram: every value is known to 3 %. */
#include <string.h>

#include "stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct histogram h;

static int setup(void **state)
{
	(void)state;
	memset(&h, 0, sizeof(h));
	return 0;
}

static void an_empty_histogram_has_no_quantile(void **state)
{
	(void)state;
	assert_int_equal(histogram_quantile(&h, 0.99), 0);
}

static void one_value_is_every_quantile(void **state)
{
	(void)state;
	histogram_add(&h, 47123);
	assert_int_equal(histogram_quantile(&h, 0), 47123);
	assert_int_equal(histogram_quantile(&h, 1), 47123);
}

static void small_values_are_exact(void **state)
{
	(void)state;
	for (uint64_t v = 0; v < 32; v++)
		histogram_add(&h, v);
	assert_int_equal(histogram_quantile(&h, 0.5), 16);
	assert_int_equal(h.max, 31);
}

static void quantiles_are_at_most_three_percent_high(void **state)
{
	static const double q[] = {0.01, 0.5, 0.9, 0.99, 0.999};
	uint64_t got, want;

	(void)state;
	for (uint64_t v = 1; v <= 100000; v++)
		histogram_add(&h, v * 100);
	for (size_t i = 0; i < sizeof(q) / sizeof(q[0]); i++) {
		want = (uint64_t)(q[i] * 100000) * 100 + 100;
		got = histogram_quantile(&h, q[i]);
		assert_true(got >= want && got <= want + want / 32);
	}
}

static void the_largest_values_have_a_bucket(void **state)
{
	(void)state;
	histogram_add(&h, UINT64_MAX);
	histogram_add(&h, (uint64_t)1 << 63);
	assert_int_equal(histogram_quantile(&h, 1), UINT64_MAX);
	assert_int_equal(h.max, UINT64_MAX);
}

#define with_histogram(f) cmocka_unit_test_setup(f, setup)

static void below_counts_what_is_at_or_below(void **state)
{
	(void)state;
	for (uint64_t v = 1; v <= 1000; v++)
		histogram_add(&h, v);
	assert_int_equal(histogram_below(&h, 0), 0);
	assert_int_equal(histogram_below(&h, 16), 16);
	assert_in_range(histogram_below(&h, 500), 484, 500);
	assert_int_equal(histogram_below(&h, UINT64_MAX), 1000);
	assert_int_equal(h.sum, 500500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_histogram(an_empty_histogram_has_no_quantile),
		with_histogram(one_value_is_every_quantile),
		with_histogram(small_values_are_exact),
		with_histogram(quantiles_are_at_most_three_percent_high),
		with_histogram(below_counts_what_is_at_or_below),
		with_histogram(the_largest_values_have_a_bucket),
	};

	return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}

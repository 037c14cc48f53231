// SPDX-License-Identifier: MIT
/* The guest RAM table. */
#include <errno.h>
#include <string.h>

#include "error.h"
#include "region.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct region_table t;

static int setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	region_table_free(&t);
	return 0;
}

static int add(const char *name, uint64_t start, size_t length)
{
	const struct snap_region spec = {
		.size = sizeof(spec),
		.name = name,
		.addr = (void *)(uintptr_t)start,
		.length = length,
	};

	return region_add(&t, &spec);
}

static void regions_are_found_by_address_whatever_their_order(void **state)
{
	(void)state;
	assert_int_equal(add("high", 0x900000, 0x2000), 0);
	assert_int_equal(add("low", 0x100000, 0x1000), 0);
	assert_int_equal(add("mid", 0x101000, 0x3000), 0);
	assert_string_equal(region_find(&t, 0x100fff)->name, "low");
	assert_string_equal(region_find(&t, 0x101000)->name, "mid");
	assert_string_equal(region_find(&t, 0x901fff)->name, "high");
	assert_null(region_find(&t, 0x902000));
	assert_null(region_find(&t, 0xfffff));
	assert_string_equal(region_from(&t, 0x104000)->name, "high");
	assert_string_equal(t.by_index[0]->name, "high");
}

static void a_region_without_a_name_is_numbered(void **state)
{
	(void)state;
	assert_int_equal(add(NULL, 0x1000, 0x1000), 0);
	assert_int_equal(add(NULL, 0x4000, 0x1000), 0);
	assert_string_equal(t.by_index[1]->name, "ram1");
}

static void regions_may_touch_but_not_overlap(void **state)
{
	(void)state;
	assert_int_equal(add("a", 0x10000, 0x2000), 0);
	assert_int_equal(add("b", 0x12000, 0x1000), 0);
	assert_int_equal(add("c", 0xf000, 0x1000), 0);
	assert_int_equal(add("d", 0x11000, 0x1000), -EEXIST);
	assert_non_null(strstr(error_text(), "region d"));
	assert_non_null(strstr(error_text(), "overlaps region a"));
	assert_int_equal(add("d", 0x8000, 0x100000), -EEXIST);
	assert_int_equal(t.count, 3);
}

static void numbers_that_make_no_region_are_refused(void **state)
{
	char name[SNAP_NAME_MAX + 2];

	(void)state;
	assert_int_equal(add("a", 0x1001, 0x1000), -EINVAL);
	assert_int_equal(add("a", 0x1000, 0x1001), -EINVAL);
	assert_int_equal(add("a", 0x1000, 0), -EINVAL);
	assert_int_equal(add("a", UINT64_MAX - 0xfff, 0x2000), -EINVAL);
	assert_int_equal(add("", 0x1000, 0x1000), -EINVAL);
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(add(name, 0x1000, 0x1000), -EINVAL);
	assert_int_equal(add(name + 1, 0x1000, 0x1000), 0);
	assert_int_equal(add(name + 1, 0x9000, 0x1000), -EINVAL);
}

#define with_table(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_table(regions_are_found_by_address_whatever_their_order),
		with_table(a_region_without_a_name_is_numbered),
		with_table(regions_may_touch_but_not_overlap),
		with_table(numbers_that_make_no_region_are_refused),
	};

	return cmocka_run_group_tests_name("region", tests, NULL, NULL);
}

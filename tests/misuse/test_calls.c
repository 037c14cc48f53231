// SPDX-License-Identifier: MIT
/* Wrong arguments and wrong order of calls, one case each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/ram.h"
#include "lib/scene.h"

#define MB ((size_t)1 << 20)
#define GB ((size_t)1 << 30)
#define USAGE SNAP_FAILURE_USAGE

static struct ram ram;

static int make_ram(void **state)
{
	(void)state;
	return ram_make(&ram, RAM_ANON, 4 * MB);
}

static int drop_ram(void **state)
{
	(void)state;
	ram_free(&ram);
	return 0;
}

/* ---- snap_create() ---- */

static void refused_options(struct snap_options o, int err, const char *word)
{
	struct snap *s = (struct snap *)&o;

	if (!o.size)
		o.size = sizeof(o);
	expect_error(snap_create(&s, &o), err, USAGE, word);
	assert_ptr_equal(s, &o); /* untouched */
}

static void options_out_of_range(void **state)
{
	(void)state;
	refused_options((struct snap_options){.size = 4}, -EINVAL, "size");
	refused_options((struct snap_options){.compress = 99}, -EINVAL,
			"compress");
	refused_options((struct snap_options){.compress = SNAP_COMPRESS_ZSTD,
					      .compress_level = 20},
			-EINVAL, "level");
	refused_options((struct snap_options){.max_buffer = MB}, -EINVAL,
			"buffer");
	refused_options((struct snap_options){.max_buffer = 16 * MB - 1},
			-EINVAL, "buffer");
	refused_options((struct snap_options){.max_buffer = GB + 1}, -EINVAL,
			"buffer");
	refused_options((struct snap_options){.flags = 1u << 31}, -EINVAL,
			"flag");
	refused_options((struct snap_options){.output_fd = -1}, -EINVAL,
			"output");
}

static void options_of_size_zero(void **state)
{
	struct snap_options o = {.size = 0};
	struct snap *s = NULL;

	(void)state;
	expect_error(snap_create(&s, &o), -EINVAL, USAGE, "size");
	assert_null(s);
}

struct newer_options {
	struct snap_options known;
	uint64_t tail[3];
};

static void options_of_a_newer_header(void **state)
{
	struct newer_options o = {.known.size = sizeof(o)};
	struct snap *s;

	(void)state;
	assert_int_equal(snap_create(&s, &o.known), 0);
	snap_destroy(s);
	o.tail[2] = 1;
	expect_error(snap_create(&s, &o.known), -E2BIG, USAGE, "");
}

/* ---- snap_add_region() ---- */

static struct snap *new_snap(void)
{
	struct snap *s;

	assert_int_equal(snap_create(&s, NULL), 0);
	return s;
}

static int add(struct snap *s, const char *name, void *addr, size_t len)
{
	struct snap_region r = {
		.size = sizeof(r), .name = name, .addr = addr, .length = len};

	return snap_add_region(s, &r);
}

static void region_numbers(void **state)
{
	char name[SNAP_NAME_MAX + 2];
	struct snap *s = new_snap();
	struct snap_region small = {.size = 8};

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	expect_error(add(s, "r", ram.addr + 1, 4096), -EINVAL, USAGE, "r");
	expect_error(add(s, "r", ram.addr, 4097), -EINVAL, USAGE, "r");
	expect_error(add(s, "r", ram.addr, 0), -EINVAL, USAGE, "r");
	expect_error(add(s, "r", (void *)-8192L, 16384), -EINVAL, USAGE, "r");
	expect_error(add(s, "r", ram.addr, (size_t)-4096), -EINVAL, USAGE, "r");
	expect_error(add(s, name, ram.addr, 4096), -EINVAL, USAGE, "name");
	expect_error(add(s, "", ram.addr, 4096), -EINVAL, USAGE, "name");
	expect_error(snap_add_region(s, &small), -EINVAL, USAGE, "size");
	name[SNAP_NAME_MAX] = '\0';
	assert_int_equal(add(s, name, ram.addr, 4096), 0);
	snap_destroy(s);
}

static void region_that_overlaps(void **state)
{
	uint8_t *at = ram.addr + MB;
	struct snap *s = new_snap();

	(void)state;
	assert_int_equal(add(s, "first", at, MB), 0);
	expect_error(add(s, "same", at, MB), -EEXIST, USAGE, "first|same");
	expect_error(add(s, "head", at - 4096, 8192), -EEXIST, USAGE,
		     "first|head");
	expect_error(add(s, "tail", at + MB - 4096, 8192), -EEXIST, USAGE,
		     "first|tail");
	expect_error(add(s, "inside", at + 4096, 4096), -EEXIST, USAGE,
		     "first|inside");
	expect_error(add(s, "around", at - 4096, MB + 8192), -EEXIST, USAGE,
		     "first|around");
	assert_int_equal(add(s, "before", at - 4096, 4096), 0);
	assert_int_equal(add(s, "after", at + MB, 4096), 0);
	expect_error(add(s, "first", ram.addr, 4096), -EINVAL, USAGE, "first");
	snap_destroy(s);
}

static void default_names_do_not_clash(void **state)
{
	struct snap *s = new_snap();

	(void)state;
	assert_int_equal(add(s, NULL, ram.addr, 4096), 0);
	assert_int_equal(add(s, NULL, ram.addr + 4096, 4096), 0);
	snap_destroy(s);
}

/* ---- snap_add_device_state() ---- */

static void device_state_arguments(void **state)
{
	char name[SNAP_NAME_MAX + 2];
	struct snap *s = new_snap();

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	expect_error(snap_add_device_state(s, "", "a", 1), -EINVAL, USAGE,
		     "name");
	expect_error(snap_add_device_state(s, name, "a", 1), -EINVAL, USAGE,
		     "name");
	expect_error(snap_add_device_state(s, "big", "a", GB + 1), -E2BIG,
		     USAGE, "big");
	assert_int_equal(snap_add_device_state(s, "one", "a", 1), 0);
	expect_error(snap_add_device_state(s, "one", "b", 1), -EEXIST, USAGE,
		     "one");
	expect_error(snap_add_device_state(s, "rest", "a", GB), -E2BIG, USAGE,
		     "rest");
	snap_destroy(s);
}

/* ---- order ---- */

static void prepare_without_a_region(void **state)
{
	struct snap *s = new_snap();

	(void)state;
	expect_error(snap_prepare(s), -EINVAL, USAGE, "region");
	snap_destroy(s);
	s = new_snap();
	expect_error(snap_begin(s), -EINVAL, USAGE, "region");
	snap_destroy(s);
}

static void calls_out_of_order(void **state)
{
	struct snap *s = new_snap();

	(void)state;
	assert_int_equal(add(s, "a", ram.addr, MB), 0);
	assert_int_equal(snap_state(s), SNAP_STATE_NEW);
	assert_int_equal(snap_status(s), -EINPROGRESS);
	assert_int_equal(snap_prepare(s), 0);
	assert_int_equal(snap_state(s), SNAP_STATE_PREPARED);
	expect_error(snap_prepare(s), -EBUSY, USAGE, "");
	expect_error(add(s, "b", ram.addr + MB, MB), -EBUSY, USAGE, "");
	assert_int_equal(snap_add_device_state(s, "d", "x", 1), 0);
	assert_int_equal(snap_begin(s), 0);
	expect_error(snap_begin(s), -EBUSY, USAGE, "");
	expect_error(snap_prepare(s), -EBUSY, USAGE, "");
	expect_error(add(s, "b", ram.addr + MB, MB), -EBUSY, USAGE, "");
	expect_error(snap_add_device_state(s, "e", "x", 1), -EBUSY, USAGE, "");
	assert_int_equal(snap_wait(s, 10000), 0);
	expect_error(snap_begin(s), -EBUSY, USAGE, "");
	snap_destroy(s);
}

static void a_failed_handle_can_only_be_destroyed(void **state)
{
	struct snap *s = new_snap();

	(void)state;
	assert_true(snap_prepare(s) < 0);
	assert_true(add(s, "a", ram.addr, MB) < 0 || snap_prepare(s) < 0);
	assert_true(snap_begin(s) < 0);
	snap_cancel(s);
	assert_true(snap_status(s) < 0);
	snap_destroy(s);
}

static void *wait_for_ever(void *arg)
{
	return (void *)(intptr_t)snap_wait(arg, -1);
}

static void cancel_of_a_new_handle_wakes_who_waits(void **state)
{
	struct snap *s = new_snap();
	struct pollfd p = {.fd = snap_fd(s), .events = POLLIN};
	struct timespec limit;
	pthread_t waiter;
	void *result;

	(void)state;
	assert_int_equal(pthread_create(&waiter, NULL, wait_for_ever, s), 0);
	usleep(20000); /* so that it is asleep, most often */
	snap_cancel(s);
	assert_int_equal(poll(&p, 1, 10000), 1);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 10;
	assert_int_equal(pthread_timedjoin_np(waiter, &result, &limit), 0);
	assert_int_equal((intptr_t)result, -ECANCELED);
	snap_destroy(s);
}

static void report_of_a_name_that_is_not_utf8(void **state)
{
	const struct snap_options o = {
		.size = sizeof(o),
		.output = "/nowhere/\xff\xc3/x.snap",
	};
	struct snap *s;
	char *json;

	(void)state;
	assert_int_equal(snap_create(&s, &o), 0);
	assert_int_equal(add(s, "a", ram.addr, MB), 0);
	assert_true(snap_prepare(s) < 0);
	json = snap_stats_json(s);
	assert_non_null(json);
	assert_non_null(strstr(json, "/nowhere/?"
				     "?/x.snap"));
	free(json);
	snap_destroy(s);
}

static void stats_of_any_size(void **state)
{
	union {
		struct snap_stats st;
		uint8_t bytes[sizeof(struct snap_stats)];
	} u;
	struct snap *s = new_snap();

	(void)state;
	assert_int_equal(add(s, "a", ram.addr, MB), 0);
	memset(&u, 0xee, sizeof(u));
	u.st.size = 0;
	expect_error(snap_get_stats(s, &u.st), -EINVAL, USAGE, "size");
	u.st.size = offsetof(struct snap_stats, pages_by_fault);
	assert_int_equal(snap_get_stats(s, &u.st), 0);
	assert_int_equal(u.st.pages_total, MB / 4096);
	assert_int_equal(u.bytes[offsetof(struct snap_stats, pages_by_fault)],
			 0xee);
	snap_destroy(s);
}

static void errors_belong_to_their_thread(void **state)
{
	(void)state;
	assert_non_null(snap_error_message());
	assert_non_null(snap_version());
	assert_int_equal(snap_version()[0], '0' + SNAP_VERSION_MAJOR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_out_of_range),
		cmocka_unit_test(options_of_size_zero),
		cmocka_unit_test(options_of_a_newer_header),
		cmocka_unit_test(region_numbers),
		cmocka_unit_test(region_that_overlaps),
		cmocka_unit_test(default_names_do_not_clash),
		cmocka_unit_test(device_state_arguments),
		cmocka_unit_test(prepare_without_a_region),
		cmocka_unit_test(calls_out_of_order),
		cmocka_unit_test(a_failed_handle_can_only_be_destroyed),
		cmocka_unit_test(cancel_of_a_new_handle_wakes_who_waits),
		cmocka_unit_test(report_of_a_name_that_is_not_utf8),
		cmocka_unit_test(stats_of_any_size),
		cmocka_unit_test(errors_belong_to_their_thread),
	};

	return scene_exit_code(cmocka_run_group_tests_name("calls", tests,
							   make_ram, drop_ram));
}

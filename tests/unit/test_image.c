// SPDX-License-Identifier: MIT
/* Open images: what they say, what their pages are, and what may fail. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

static int fail_pread; /* what the next sys_pread() gives; 0: the real thing */
static int fail_read;
static long budget = -1; /* allocations that go well; -1: all */

ssize_t __real_sys_pread(int f, void *buf, size_t len, uint64_t offset);
ssize_t __wrap_sys_pread(int f, void *buf, size_t len, uint64_t offset);
ssize_t __real_sys_read(int f, void *buf, size_t len);
ssize_t __wrap_sys_read(int f, void *buf, size_t len);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

/* Short as well: a read may always give less. */
ssize_t __wrap_sys_pread(int f, void *buf, size_t len, uint64_t offset)
{
	int err = fail_pread;

	if (err) {
		fail_pread = 0;
		return err;
	}
	return __real_sys_pread(f, buf, len > 1000 ? len / 2 : len, offset);
}

ssize_t __wrap_sys_read(int f, void *buf, size_t len)
{
	int err = fail_read;

	if (err) {
		fail_read = 0;
		return err;
	}
	return __real_sys_read(f, buf, len > 1000 ? len / 2 : len);
}

static bool may_allocate(void)
{
	if (budget < 0)
		return true;
	if (!budget)
		return false;
	budget--;
	return true;
}

void *__wrap_malloc(size_t size)
{
	return may_allocate() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return may_allocate() ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *p, size_t size)
{
	return may_allocate() ? __real_realloc(p, size) : NULL;
}

static struct snap_image *open_sample(void)
{
	struct snap_image *img = NULL;

	if (snap_image_open(&img, path))
		fail_msg("open: %s", error_text());
	return img;
}

static void an_image_says_what_it_is(void **state)
{
	struct snap_image_info info = {.size = sizeof(info)};
	struct snap_image_region r = {.size = sizeof(r)};
	struct snap_image *img = open_sample();

	assert_int_equal(snap_image_get_info(img, &info), 0);
	assert_int_equal(info.size, sizeof(info));
	assert_memory_equal(info.snapshot_id, m.head.snapshot_id, 16);
	assert_int_equal(info.created_unix_ns, m.head.created_unix_ns);
	assert_int_equal(info.region_count, 3);
	assert_int_equal(info.device_state_count, 2);
	assert_int_equal(info.format_version, FORMAT_VERSION);
	assert_int_equal(info.pages_total, SAMPLE_PAGES + 1 + SAMPLE_HOLE);
	assert_int_equal(info.pages_data, m.totals.pages_data);
	assert_int_equal(info.pages_zero, 9);
	assert_int_equal(info.pages_absent, SAMPLE_HOLE + 18);
	assert_int_equal(info.bytes_ram, info.pages_total * 4096);
	assert_int_equal(info.bytes_file, m.len);
	assert_int_equal(info.frame_count, m.count);
	assert_int_equal(snap_image_get_region(img, 1, &r), 0);
	assert_string_equal(r.name, "tiny");
	assert_int_equal(r.length, 4096);
	assert_int_equal(r.start, m.regions[1].start);
	assert_int_equal(r.guest_addr, m.regions[1].guest_addr);
	assert_int_equal(r.page_size, 4096);
	snap_image_close(img);
}

/* A program built with an older, shorter struct gets no more than fits. */
static void a_short_struct_is_not_overrun(void **state)
{
	struct snap_image_info info = {.size = 24, .created_unix_ns = 7};
	struct snap_image_region r = {0};
	struct snap_image *img = open_sample();

	assert_int_equal(snap_image_get_info(img, &info), 0);
	assert_memory_equal(info.snapshot_id, m.head.snapshot_id, 16);
	assert_int_equal(info.created_unix_ns, 7);
	assert_int_equal(info.size, 24);
	info.size = 0;
	assert_int_equal(snap_image_get_info(img, &info), -EINVAL);
	assert_int_equal(snap_image_get_region(img, 0, &r), -EINVAL);
	r.size = sizeof(r);
	assert_int_equal(snap_image_get_region(img, 3, &r), -ENOENT);
	snap_image_close(img);
}

static void device_states_are_found_by_name_and_number(void **state)
{
	struct snap_image *img = open_sample();
	const char *name;
	const void *data;
	size_t len;

	assert_int_equal(
		snap_image_get_device_state(img, 0, &name, &data, &len), 0);
	assert_string_equal(name, "cpu");
	assert_int_equal(len, SAMPLE_STATE);
	assert_memory_equal(data, m.states[0].data, len);
	assert_int_equal(snap_image_get_device_state(img, 1, NULL, NULL, NULL),
			 0);
	assert_int_equal(snap_image_get_device_state(img, 2, NULL, NULL, NULL),
			 -ENOENT);
	assert_int_equal(snap_image_find_device_state(img, "none", &data, &len),
			 0);
	assert_int_equal(len, 0);
	assert_int_equal(snap_image_find_device_state(img, "CPU", &data, &len),
			 -ENOENT);
	assert_non_null(strstr(error_text(), "CPU"));
	snap_image_close(img);
}

/* Region 0 as it must be. */
static uint8_t *expected_ram(void)
{
	uint8_t *ram = calloc(SAMPLE_PAGES, PAGE_BYTES);

	assert_non_null(ram);
	for (uint64_t page = 0; page < SAMPLE_PAGES; page++)
		if (maker_sample_kind(page) == FRAME_DATA)
			maker_page(ram + page * PAGE_BYTES, 0, page);
	return ram;
}

static void any_range_reads_as_it_was(void **state)
{
	static const uint64_t sizes[] = {1, 100, 4096, 5000, 40000};
	uint8_t *ram = expected_ram(), *got = malloc(SAMPLE_PAGES * PAGE_BYTES);
	struct snap_image *img = open_sample();

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint64_t at, end = SAMPLE_PAGES * PAGE_BYTES - sizes[i];

		for (at = 0; at <= end; at += 3333) {
			memset(got, 0xaa, sizes[i] + 1);
			assert_int_equal(
				snap_image_read(img, 0, at, got, sizes[i]), 0);
			assert_memory_equal(got, ram + at, sizes[i]);
			assert_int_equal(got[sizes[i]], 0xaa);
		}
	}
	assert_int_equal(
		snap_image_read(img, 0, 0, got, SAMPLE_PAGES * PAGE_BYTES), 0);
	assert_memory_equal(got, ram, SAMPLE_PAGES * PAGE_BYTES);
	assert_int_equal(snap_image_read(img, 1, 0, got, PAGE_BYTES), 0);
	maker_page(ram, 1, 0);
	assert_memory_equal(got, ram, PAGE_BYTES);
	snap_image_close(img);
	free(got);
	free(ram);
}

static void reads_outside_a_region_are_refused(void **state)
{
	struct snap_image *img = open_sample();
	char c;

	assert_int_equal(snap_image_read(img, 1, 4096, &c, 1), -EINVAL);
	assert_int_equal(snap_image_read(img, 1, UINT64_MAX, &c, 2), -EINVAL);
	assert_int_equal(snap_image_read(img, 1, 1, &c, SIZE_MAX), -EINVAL);
	assert_int_equal(snap_image_read(img, 3, 0, &c, 1), -ENOENT);
	assert_int_equal(snap_image_read(img, 1, 4096, &c, 0), 0);
	snap_image_close(img);
}

static void kinds_of_pages_come_in_runs(void **state)
{
	static const struct {
		uint64_t page, count;
		enum snap_page_kind kind;
	} runs[] = {
		{0, 8, SNAP_PAGE_DATA},	    {3, 5, SNAP_PAGE_DATA},
		{8, 8, SNAP_PAGE_ZERO},	    {16, 24, SNAP_PAGE_DATA},
		{40, 1, SNAP_PAGE_ZERO},    {41, 5, SNAP_PAGE_DATA},
		{46, 18, SNAP_PAGE_ABSENT},
	};
	struct snap_image *img = open_sample();
	enum snap_page_kind kind;
	uint64_t count;

	for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
		assert_int_equal(snap_image_page_kind(img, 0, runs[i].page,
						      &kind, &count),
				 0);
		assert_int_equal(kind, runs[i].kind);
		assert_int_equal(count, runs[i].count);
	}
	assert_int_equal(snap_image_page_kind(img, 2, 1, &kind, &count), 0);
	assert_int_equal(count, SAMPLE_HOLE - 1);
	assert_int_equal(snap_image_page_kind(img, 1, 1, &kind, &count),
			 -EINVAL);
	assert_int_equal(snap_image_page_kind(img, 9, 0, &kind, &count),
			 -ENOENT);
	snap_image_close(img);
}

static void what_is_no_image_is_refused(void **state)
{
	struct snap_image *img = NULL;

	assert_int_equal(snap_image_open(&img, "no/such/image"), -ENOENT);
	assert_non_null(strstr(error_text(), "no/such/image"));
	assert_int_equal(snap_image_verify("no/such/image"), -ENOENT);
	assert_int_equal(snap_image_open(&img, "/"), -EISDIR);
	assert_int_equal(snap_image_verify("/"), -EISDIR);
	assert_int_equal(snap_image_open(&img, "/dev/null"), -EINVAL);
	assert_int_equal(snap_image_verify("/dev/null"), -EBADMSG);
	assert_int_equal(snap_image_open(&img, "/proc/self/exe"), -EBADMSG);
	assert_non_null(strstr(error_text(), "not a snapshot image"));
	assert_int_equal(error_failure(), SNAP_FAILURE_IMAGE);
	assert_int_equal(snap_image_open(NULL, path), -EINVAL);
	assert_int_equal(snap_image_open(&img, NULL), -EINVAL);
	assert_int_equal(snap_image_verify(NULL), -EINVAL);
	assert_null(img);
	snap_image_close(NULL);
}

static void another_version_is_not_supported(void **state)
{
	struct snap_image *img = NULL;

	m.bytes[8]++;
	maker_store(&m, fd, m.len);
	assert_int_equal(snap_image_open(&img, path), -ENOTSUP);
	assert_non_null(strstr(error_text(), "version 2 is unknown"));
	assert_int_equal(snap_image_verify(path), -ENOTSUP);
}

static void a_stream_is_verified_front_to_back(void **state)
{
	int old = dup(0), ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (!child) {
		ssize_t n = write(ends[1], m.bytes, m.len);

		_exit(n != (ssize_t)m.len);
	}
	close(ends[1]);
	dup2(ends[0], 0);
	close(ends[0]);
	if (snap_image_verify("-"))
		fail_msg("%s", error_text());
	/* Nothing more comes: the same again is a stream of no bytes. */
	assert_int_equal(snap_image_verify("-"), -EBADMSG);
	assert_non_null(strstr(error_text(), "standard input: damaged at byte "
					     "0: incomplete"));
	dup2(old, 0);
	close(old);
}

static void a_read_error_is_given_with_its_place(void **state)
{
	struct snap_image *img = NULL;
	char c;

	fail_pread = -EIO;
	assert_int_equal(snap_image_open(&img, path), -EIO);
	assert_non_null(strstr(error_text(), "cannot read at byte 0"));
	fail_pread = -EINTR; /* and goes on */
	img = open_sample();
	fail_pread = -EIO;
	assert_int_equal(snap_image_read(img, 0, 0, &c, 1), -EIO);
	assert_int_equal(snap_image_read(img, 0, 0, &c, 1), 0);
	snap_image_close(img);
	fail_read = -EIO;
	assert_int_equal(snap_image_verify(path), -EIO);
	fail_read = -EINTR;
	assert_int_equal(snap_image_verify(path), 0);
}

static int try_open_and_read(void)
{
	struct snap_image *img = NULL;
	char c;
	int err = snap_image_open(&img, path);

	if (!err)
		err = snap_image_read(img, 0, 0, &c, 1);
	snap_image_close(img);
	return err;
}

static void no_memory_is_survived_at_each_place(void **state)
{
	int err = -ENOMEM;
	long i;

	for (i = 0; err && i < 200; i++) {
		budget = i;
		err = try_open_and_read();
		budget = -1;
		if (err)
			assert_int_equal(err, -ENOMEM);
	}
	assert_int_equal(err, 0);
	assert_true(i > 10);
	for (i = 0, err = -ENOMEM; err && i < 200; i++) {
		budget = i;
		err = snap_image_verify(path);
		budget = -1;
		if (err)
			assert_int_equal(err, -ENOMEM);
	}
	assert_int_equal(err, 0);
	assert_true(i > 10);
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
		cmocka_unit_test(an_image_says_what_it_is),
		cmocka_unit_test(a_short_struct_is_not_overrun),
		cmocka_unit_test(device_states_are_found_by_name_and_number),
		cmocka_unit_test(any_range_reads_as_it_was),
		cmocka_unit_test(reads_outside_a_region_are_refused),
		cmocka_unit_test(kinds_of_pages_come_in_runs),
		cmocka_unit_test(what_is_no_image_is_refused),
		cmocka_unit_test(another_version_is_not_supported),
		cmocka_unit_test(a_stream_is_verified_front_to_back),
		cmocka_unit_test(a_read_error_is_given_with_its_place),
		cmocka_unit_test(no_memory_is_survived_at_each_place),
	};
	struct CMUnitTest fresh[ARRAY_SIZE(tests)];

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		fresh[i] = tests[i];
		fresh[i].setup_func = setup;
		fresh[i].teardown_func = teardown;
	}
	return cmocka_run_group_tests(fresh, NULL, NULL);
}

// SPDX-License-Identifier: MIT
/* Pages checksummed in the pause: a write that is not seen is found out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libsnap.h"

#define MB ((size_t)1 << 20)
#define RAM_BYTES (64 * MB)
#define PAGE ((size_t)4096)

static struct snap *prepare(uint8_t *ram, unsigned percent)
{
	/* So slow that most of it is not saved for a while. */
	const struct snap_options o = {.size = sizeof(o),
				       .audit_percent = percent,
				       .bandwidth = 16 * MB,
				       .max_buffer = 16 * MB};
	const struct snap_region r = {
		.size = sizeof(r), .addr = ram, .length = RAM_BYTES};
	struct snap *s;

	assert_int_equal(snap_create(&s, &o), 0);
	assert_int_equal(snap_add_region(s, &r), 0);
	if (snap_prepare(s) == -EPERM) {
		print_message("%s\n", snap_error_message());
		skip();
	}
	return s;
}

static uint8_t *memfd_ram(int *fd)
{
	uint8_t *ram;

	*fd = memfd_create("ram", MFD_CLOEXEC);
	assert_true(*fd >= 0);
	assert_int_equal(ftruncate(*fd, (off_t)RAM_BYTES), 0);
	ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(ram, MAP_FAILED);
	memset(ram, 1, RAM_BYTES);
	return ram;
}

static uint64_t audited(struct snap *s)
{
	struct snap_stats st = {.size = sizeof(st)};

	snap_get_stats(s, &st);
	return st.pages_audited;
}

static void write_through_the_file_is_found_out(void **state)
{
	int fd;
	uint8_t *ram = memfd_ram(&fd);
	struct snap *s = prepare(ram, 100);

	(void)state;
	assert_int_equal(snap_begin(s), 0);
	/* The last page, which the sweep takes last. */
	assert_int_equal(pwrite(fd, "x", 1, (off_t)(RAM_BYTES - PAGE)), 1);
	assert_int_equal(snap_wait(s, 60000), -EILSEQ);
	assert_int_equal(snap_error_failure(), SNAP_FAILURE_LOST);
	assert_non_null(strstr(snap_error_message(), "unseen"));
	snap_destroy(s);
	munmap(ram, RAM_BYTES);
	close(fd);
}

static void writes_that_are_seen_pass(void **state)
{
	uint8_t *ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct snap *s;

	(void)state;
	assert_ptr_not_equal(ram, MAP_FAILED);
	memset(ram, 1, RAM_BYTES / 2); /* the rest are holes */
	s = prepare(ram, 100);
	assert_int_equal(snap_begin(s), 0);
	for (size_t at = RAM_BYTES; at > 0; at -= 16 * PAGE)
		ram[at - 1] = 7;
	assert_int_equal(snap_wait(s, 60000), 0);
	assert_true(audited(s) >= RAM_BYTES / 2 / PAGE);
	snap_destroy(s);
	munmap(ram, RAM_BYTES);
}

static void about_as_many_as_asked_for(void **state)
{
	int fd;
	uint8_t *ram = memfd_ram(&fd);
	struct snap *s = prepare(ram, 10);

	(void)state;
	assert_int_equal(snap_begin(s), 0);
	assert_int_equal(snap_wait(s, 60000), 0);
	/* Of 16384 pages: ten standard deviations on each side. */
	assert_in_range(audited(s), 1254, 2022);
	snap_destroy(s);
	munmap(ram, RAM_BYTES);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_through_the_file_is_found_out),
		cmocka_unit_test(writes_that_are_seen_pass),
		cmocka_unit_test(about_as_many_as_asked_for),
	};

	return cmocka_run_group_tests_name("audit", tests, NULL, NULL);
}

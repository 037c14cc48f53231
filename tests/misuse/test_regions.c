// SPDX-License-Identifier: MIT
/*
 * Memory that cannot be saved: refused by name before anything is touched, and
 * nothing stays registered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/proc.h"
#include "lib/ram.h"
#include "lib/scene.h"

#define MB ((size_t)1 << 20)
#define LEN (4 * MB)
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define REFUSED SNAP_FAILURE_REFUSED

static uint8_t *map(int prot, int flags, int fd)
{
	void *p = mmap(NULL, LEN, prot, flags, fd, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static uint8_t *good; /* sound, there all the time */

static int make_good(void **state)
{
	(void)state;
	good = map(RW, ANON, -1);
	return 0;
}

static int drop_good(void **state)
{
	(void)state;
	return munmap(good, LEN);
}

static void add(struct snap *s, const char *name, void *addr, size_t len)
{
	struct snap_region r = {
		.size = sizeof(r), .name = name, .addr = addr, .length = len};

	assert_int_equal(snap_add_region(s, &r), 0);
}

static void check_untouched(const uint8_t *p)
{
	struct proc_range range;
	struct proc_census now;

	proc_range(p, LEN, &range);
	assert_int_equal(range.uffd_mappings, 0);
	proc_census(&now);
	assert_int_equal(now.userfaultfds, 0);
}

/* With a good region beside it, which must not stay registered. */
static void refuse(uint8_t *bad, size_t len, int err, const char *words)
{
	struct snap *s;

	assert_int_equal(snap_create(&s, NULL), 0);
	add(s, "good", good, LEN);
	add(s, "bad", bad, len);
	expect_error(snap_prepare(s), err, REFUSED, words);
	assert_null(strstr(snap_error_message(), "good"));
	check_untouched(good);
	assert_true(snap_begin(s) < 0);
	snap_destroy(s);
	check_untouched(good);
}

static void unmapped(void **state)
{
	uint8_t *p = map(RW, ANON, -1);

	(void)state;
	munmap(p, LEN);
	refuse(p, LEN, -EFAULT, "bad|mapped");
}

static void hole_in_the_middle(void **state)
{
	uint8_t *p = map(RW, ANON, -1);

	(void)state;
	munmap(p + MB, 4096);
	refuse(p, LEN, -EFAULT, "bad|mapped");
	munmap(p, LEN);
}

static void ends_behind_the_mapping(void **state)
{
	uint8_t *p = map(RW, ANON, -1);

	(void)state;
	munmap(p + LEN - 4096, 4096);
	refuse(p, LEN, -EFAULT, "bad|mapped");
	munmap(p, LEN);
}

static void read_only(void **state)
{
	uint8_t *p = map(PROT_READ, ANON, -1);

	(void)state;
	refuse(p, LEN, -EACCES, "bad|not writable");
	munmap(p, LEN);
}

static void without_access(void **state)
{
	uint8_t *p = map(RW, ANON, -1);

	(void)state;
	mprotect(p + MB, 4096, PROT_NONE);
	refuse(p, LEN, -EACCES, "bad|not writable");
	munmap(p, LEN);
}

static int temp_file(void)
{
	char path[] = "/tmp/snap-file-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(ftruncate(fd, LEN), 0);
	return fd;
}

static void file_private(void **state)
{
	int fd = temp_file();
	uint8_t *p = map(RW, MAP_PRIVATE, fd);

	(void)state;
	refuse(p, LEN, -EINVAL, "bad|file");
	munmap(p, LEN);
	close(fd);
}

static void file_shared(void **state)
{
	int fd = temp_file();
	uint8_t *p = map(RW, MAP_SHARED, fd);

	(void)state;
	refuse(p, LEN, -EINVAL, "bad|file");
	munmap(p, LEN);
	close(fd);
}

/* A private mapping of a memfd: what is absent is the file's, not zero. */
static void memfd_private(void **state)
{
	int fd = memfd_create("private", MFD_CLOEXEC);
	uint8_t *p;

	(void)state;
	assert_int_equal(ftruncate(fd, LEN), 0);
	p = map(RW, MAP_PRIVATE, fd);
	refuse(p, LEN, -EINVAL, "bad");
	munmap(p, LEN);
	close(fd);
}

static void memfd_shorter_than_its_mapping(void **state)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	struct snap *s;
	uint8_t *p;

	(void)state;
	assert_int_equal(ftruncate(fd, LEN / 2), 0);
	p = map(RW, MAP_SHARED, fd);
	memset(p, 1, LEN / 2);
	assert_int_equal(snap_create(&s, NULL), 0);
	add(s, "short", p, LEN);
	/* Refused, or the part beyond the end is absent; never a SIGBUS. */
	if (snap_begin(s) == 0)
		assert_int_equal(snap_wait(s, 10000), 0);
	else
		assert_non_null(strstr(snap_error_message(), "short"));
	snap_destroy(s);
	munmap(p, LEN);
	close(fd);
}

static int foreign_uffd(uint8_t *p)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {
		.range = {.start = (uintptr_t)p, .len = LEN},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (fd < 0)
		scene_skip("userfaultfd is not allowed here");
	assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
	assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &reg), 0);
	return fd;
}

static void registered_elsewhere(void **state)
{
	uint8_t *p = map(RW, ANON, -1);
	int fd = foreign_uffd(p);
	struct proc_range range;
	struct snap *s;

	(void)state;
	assert_int_equal(snap_create(&s, NULL), 0);
	add(s, "good", good, LEN);
	add(s, "bad", p, LEN);
	expect_error(snap_prepare(s), -EBUSY, REFUSED, "bad|userfaultfd");
	snap_destroy(s);
	proc_range(good, LEN, &range);
	assert_int_equal(range.uffd_mappings, 0);
	proc_range(p, LEN, &range);
	assert_int_equal(range.uffd_mappings, 1); /* still the other's */
	close(fd);
	munmap(p, LEN);
}

static void two_handles_want_the_same(void **state)
{
	uint8_t *p = map(RW, ANON, -1);
	struct snap *a, *b;

	(void)state;
	assert_int_equal(snap_create(&a, NULL), 0);
	assert_int_equal(snap_create(&b, NULL), 0);
	add(a, "ram", p, LEN);
	add(b, "ram", p, LEN);
	assert_int_equal(snap_prepare(a), 0);
	expect_error(snap_prepare(b), -EBUSY, REFUSED, "ram");
	snap_destroy(b);
	assert_int_equal(snap_begin(a), 0);
	assert_int_equal(snap_wait(a, 10000), 0);
	snap_destroy(a);
	munmap(p, LEN);
}

static void the_library_s_own_memory(void **state)
{
	struct snap *s;

	(void)state;
	assert_int_equal(snap_create(&s, NULL), 0);
	add(s, "heap", (void *)((uintptr_t)s & ~(uintptr_t)4095), 4096);
	expect_error(snap_prepare(s), -EINVAL, REFUSED, "heap");
	snap_destroy(s);
}

/* Cut so that its ends are inside a huge page. */
static void unaligned_for_huge_pages(void **state)
{
	struct ram ram;
	struct snap *s;
	int err = ram_make(&ram, RAM_HUGETLB, 4 * MB);

	(void)state;
	if (err == -ENOTSUP)
		scene_skip(ram_why());
	assert_int_equal(err, 0);
	assert_int_equal(snap_create(&s, NULL), 0);
	add(s, "huge", ram.addr + 4096, 2 * MB);
	expect_error(snap_prepare(s), -EINVAL, REFUSED, "huge");
	snap_destroy(s);
	assert_int_equal(snap_create(&s, NULL), 0);
	add(s, "huge", ram.addr, 3 * MB);
	expect_error(snap_prepare(s), -EINVAL, REFUSED, "huge");
	snap_destroy(s);
	ram_free(&ram);
}

static void all_are_named_at_once(void **state)
{
	uint8_t *gone = map(RW, ANON, -1);
	uint8_t *locked = map(PROT_READ, ANON, -1), *taken = map(RW, ANON, -1);
	int file = temp_file(), fd = foreign_uffd(taken);
	uint8_t *backed = map(RW, MAP_SHARED, file);
	struct snap *s;

	(void)state;
	munmap(gone, LEN);
	assert_int_equal(snap_create(&s, NULL), 0);
	add(s, "sound", good, LEN);
	add(s, "gone", gone, LEN);
	add(s, "locked", locked, LEN);
	add(s, "taken", taken, LEN);
	add(s, "backed", backed, LEN);
	expect_error(snap_prepare(s), -EFAULT, REFUSED,
		     "gone|locked|taken|backed");
	assert_null(strstr(snap_error_message(), "sound"));
	snap_destroy(s);
	close(fd);
	check_untouched(good);
	check_untouched(locked);
	munmap(locked, LEN);
	munmap(taken, LEN);
	munmap(backed, LEN);
	close(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unmapped),
		cmocka_unit_test(hole_in_the_middle),
		cmocka_unit_test(ends_behind_the_mapping),
		cmocka_unit_test(read_only),
		cmocka_unit_test(without_access),
		cmocka_unit_test(file_private),
		cmocka_unit_test(file_shared),
		cmocka_unit_test(memfd_private),
		cmocka_unit_test(memfd_shorter_than_its_mapping),
		cmocka_unit_test(registered_elsewhere),
		cmocka_unit_test(two_handles_want_the_same),
		cmocka_unit_test(the_library_s_own_memory),
		cmocka_unit_test(unaligned_for_huge_pages),
		cmocka_unit_test(all_are_named_at_once),
	};

	return scene_exit_code(cmocka_run_group_tests_name(
		"regions", tests, make_good, drop_good));
}

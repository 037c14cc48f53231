// SPDX-License-Identifier: MIT
/* Lines of /proc/PID/maps, and the real file of this process. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "error.h"
#include "maps.h"
#include "sys.h"
#include "util/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int fake_read; /* 0: the real one */

ssize_t __real_sys_read(int fd, void *buf, size_t len);
ssize_t __wrap_sys_read(int fd, void *buf, size_t len);

ssize_t __wrap_sys_read(int fd, void *buf, size_t len)
{
	return fake_read ? fake_read : __real_sys_read(fd, buf, len);
}

static void a_line_is_taken_apart(void **state)
{
	struct vma v;

	(void)state;
	assert_true(maps_parse_line(
		"7f00001000-7f00003000 rw-s 00002000 00:01 4711       "
		"/memfd:guest ram (deleted)\n",
		&v));
	assert_int_equal(v.start, 0x7f00001000);
	assert_int_equal(v.end, 0x7f00003000);
	assert_int_equal(v.offset, 0x2000);
	assert_int_equal(v.inode, 4711);
	assert_true(v.read && v.write && v.shared);
	assert_string_equal(v.name, "/memfd:guest ram (deleted)");
}

static void an_anonymous_line_has_no_name(void **state)
{
	struct vma v;

	(void)state;
	assert_true(
		maps_parse_line("10000-20000 r--p 00000000 00:00 0 \n", &v));
	assert_int_equal(v.inode, 0);
	assert_false(v.write || v.shared);
	assert_string_equal(v.name, "");
}

static void other_lines_are_not_taken(void **state)
{
	struct vma v;

	(void)state;
	assert_false(maps_parse_line("", &v));
	assert_false(maps_parse_line("KernelPageSize:        4 kB", &v));
	assert_false(maps_parse_line("10000 rw-p", &v));
}

static void a_long_name_is_cut(void **state)
{
	char line[512] = "10000-20000 rw-p 00000000 08:01 5  /";
	struct vma v;

	(void)state;
	memset(line + strlen(line), 'x', 300);
	assert_true(maps_parse_line(line, &v));
	assert_int_equal(strlen(v.name), MAPS_NAME_MAX - 1);
}

static void a_mapping_of_ours_is_found(void **state)
{
	struct maps m;
	const struct vma *v;
	char *p = mmap(NULL, 4 * PAGE_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t size = 0;

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p + PAGE_BYTES, PAGE_BYTES, PROT_READ), 0);
	assert_int_equal(maps_load(&m, 0), 0);
	v = maps_find(&m, (uint64_t)(uintptr_t)p + PAGE_BYTES);
	assert_non_null(v);
	assert_int_equal(v->start, (uint64_t)(uintptr_t)p + PAGE_BYTES);
	assert_int_equal(v->end - v->start, PAGE_BYTES);
	assert_false(v->write);
	assert_null(maps_find(&m, UINT64_MAX - 1));
	assert_int_equal(maps_page_size(0, v->start, &size), 0);
	assert_int_equal(size, PAGE_BYTES);
	assert_int_equal(maps_page_size(0, v->start + 1, &size), -EFAULT);
	maps_free(&m);
	munmap(p, 4 * PAGE_BYTES);
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
	struct maps m;

	(void)state;
	fake_read = -EIO;
	assert_int_equal(maps_load(&m, 0), -EIO);
	fake_read = 0;
	assert_non_null(strstr(error_text(), "/proc/self/maps"));
	assert_int_equal(maps_load(&m, 0x7ffffff0), -ESRCH);
	assert_int_equal(error_failure(), SNAP_FAILURE_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_taken_apart),
		cmocka_unit_test(an_anonymous_line_has_no_name),
		cmocka_unit_test(other_lines_are_not_taken),
		cmocka_unit_test(a_long_name_is_cut),
		cmocka_unit_test(a_mapping_of_ours_is_found),
		cmocka_unit_test(a_file_that_cannot_be_read_is_named),
	};

	return cmocka_run_group_tests_name("maps", tests, NULL, NULL);
}

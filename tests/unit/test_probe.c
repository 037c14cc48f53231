// SPDX-License-Identifier: MIT
/* What the probe says where userfaultfd is forbidden. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "probe.h"

static bool forbidden;

int __real_sys_userfaultfd(int flags);
int __wrap_sys_userfaultfd(int flags);
int __real_sys_open(const char *path, int flags, mode_t mode);
int __wrap_sys_open(const char *path, int flags, mode_t mode);

int __wrap_sys_userfaultfd(int flags)
{
	return forbidden ? -EPERM : __real_sys_userfaultfd(flags);
}

int __wrap_sys_open(const char *path, int flags, mode_t mode)
{
	return forbidden ? -EACCES : __real_sys_open(path, flags, mode);
}

static void what_is_forbidden_is_false(void **state)
{
	struct probe p;

	(void)state;
	forbidden = true;
	probe_run(&p);
	forbidden = false;
	assert_false(p.uffd_device);
	assert_false(p.uffd_syscall);
	assert_false(p.wp_anon);
	assert_false(p.wp_shmem);
	assert_false(p.wp_hugetlb);
	assert_false(p.wp_unpopulated);
	assert_false(p.pagemap_scan);
	assert_false(p.kvm);
	assert_int_equal(p.ptrace_scope, -1);
	assert_true(p.kernel[0] != '\0');
}

static void protection_needs_a_way_to_a_userfaultfd(void **state)
{
	struct probe p;

	(void)state;
	probe_run(&p);
	if (!p.uffd_device && !p.uffd_syscall)
		assert_false(p.wp_anon);
	if (p.wp_shmem)
		assert_true(p.wp_anon);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_forbidden_is_false),
		cmocka_unit_test(protection_needs_a_way_to_a_userfaultfd),
	};

	return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}

// SPDX-License-Identifier: MIT
/* Outputs that cannot be written, users who may not, files that are no image. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/proc.h"
#include "lib/ram.h"
#include "lib/scene.h"

#define MB ((size_t)1 << 20)
#define OUTPUT SNAP_FAILURE_OUTPUT

static struct ram ram;
static char dir[] = "/tmp/snap-out-XXXXXX";
static char path[64];

static int make_place(void **state)
{
	(void)state;
	if (ram_make(&ram, RAM_ANON, 4 * MB) || !mkdtemp(dir))
		return -1;
	memset(ram.addr, 7, 2 * MB);
	snprintf(path, sizeof(path), "%s/x.snap", dir);
	return 0;
}

static int drop_place(void **state)
{
	(void)state;
	ram_free(&ram);
	return rmdir(dir); /* fails when a test left a file */
}

/* ---- outputs ---- */

static struct outcome prepare_to(const char *name, int fd, unsigned flags)
{
	struct snap_options opts = {.size = sizeof(opts),
				    .output = name,
				    .output_fd = fd,
				    .flags = flags};
	struct snap_region r = {
		.size = sizeof(r), .addr = ram.addr, .length = ram.len};
	struct outcome o;
	struct snap *s;
	int err = snap_create(&s, &opts);

	if (err)
		return outcome_of(err);
	err = snap_add_region(s, &r);
	if (!err)
		err = snap_prepare(s);
	o = outcome_of(err);
	snap_destroy(s);
	return o;
}

static void refuse(const char *name, unsigned flags, int err)
{
	struct outcome o = prepare_to(name, 0, flags);
	struct proc_range range;

	expect_outcome(&o, err, OUTPUT, name);
	proc_range(ram.addr, ram.len, &range);
	assert_int_equal(range.uffd_mappings, 0);
}

static void file_exists(void **state)
{
	struct stat st;
	FILE *f = fopen(path, "w");

	(void)state;
	fputs("precious", f);
	fclose(f);
	refuse(path, 0, -EEXIST);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 8);
	unlink(path);
}

static void a_directory(void **state)
{
	(void)state;
	refuse(dir, 0, -EISDIR);
	refuse(dir, SNAP_OVERWRITE, -EISDIR);
}

static void a_fifo(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(mkfifo(path, 0600), 0);
	refuse(path, SNAP_OVERWRITE, -EINVAL);
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
	unlink(path);
}

static void no_such_directory(void **state)
{
	(void)state;
	refuse("/nonexistent/x.snap", 0, -ENOENT);
}

static void a_file_as_directory(void **state)
{
	(void)state;
	refuse("/proc/self/maps/x.snap", 0, -ENOTDIR);
}

static void a_name_too_long(void **state)
{
	char name[400];
	struct outcome o;

	(void)state;
	memset(name, 'x', sizeof(name));
	memcpy(name, "/tmp/", 5);
	name[sizeof(name) - 1] = '\0';
	o = prepare_to(name, 0, 0);
	expect_outcome(&o, -ENAMETOOLONG, OUTPUT, "");
}

static void a_closed_descriptor(void **state)
{
	int fd = dup(2);
	struct outcome o;

	(void)state;
	close(fd);
	o = prepare_to(NULL, fd, 0);
	expect_outcome(&o, -EBADF, OUTPUT, "");
}

static void a_descriptor_that_cannot_be_written(void **state)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct outcome o = prepare_to(NULL, fd, 0);

	(void)state;
	expect_outcome(&o, -EBADF, OUTPUT, "");
	close(fd);
}

static struct outcome prepare_to_path(void *arg)
{
	return prepare_to(arg, 0, 0);
}

static void a_directory_that_may_not_be_written(void **state)
{
	struct outcome o = run_as_nobody(prepare_to_path, path, 1);

	(void)state;
	expect_outcome(&o, -EACCES, OUTPUT, path);
}

static void an_unprivileged_user(void **state)
{
	struct outcome o;
	FILE *f = fopen("/proc/sys/vm/unprivileged_userfaultfd", "r");
	struct stat st;

	(void)state;
	if (f && fgetc(f) == '1')
		scene_skip("vm.unprivileged_userfaultfd is 1");
	if (f)
		fclose(f);
	if (stat("/dev/userfaultfd", &st) == 0 && st.st_mode & S_IWOTH)
		scene_skip("everybody may use /dev/userfaultfd");
	o = run_as_nobody(prepare_to_path, NULL, 0);
	expect_outcome(&o, -EPERM, SNAP_FAILURE_REFUSED,
		       "/dev/userfaultfd|unprivileged_userfaultfd|"
		       "CAP_SYS_PTRACE");
}

/* ---- images ---- */

static void make_image(void)
{
	struct snap_options opts = {.size = sizeof(opts), .output = path};
	struct snap_region r = {
		.size = sizeof(r), .addr = ram.addr, .length = ram.len};
	struct snap *s;

	assert_int_equal(snap_create(&s, &opts), 0);
	assert_int_equal(snap_add_region(s, &r), 0);
	assert_int_equal(snap_begin(s), 0);
	assert_int_equal(snap_wait(s, 10000), 0);
	snap_destroy(s);
}

static void no_image(const char *name, int err, enum snap_failure failure)
{
	struct snap_image *img = (void *)&err;

	expect_error(snap_image_open(&img, name), err, failure, name);
	expect_error(snap_image_verify(name), err, failure, name);
}

static void files_that_are_no_image(void **state)
{
	struct snap_image *img;
	FILE *f;

	(void)state;
	assert_int_equal(snap_image_open(&img, "/nonexistent"), -ENOENT);
	assert_non_null(strstr(snap_error_message(), "/nonexistent"));
	assert_int_equal(snap_image_verify("/nonexistent"), -ENOENT);
	no_image("/proc/self/maps", -EBADMSG, SNAP_FAILURE_IMAGE);
	f = fopen(path, "w");
	no_image(path, -EBADMSG, SNAP_FAILURE_IMAGE);
	for (int i = 0; i < 40000; i++)
		fputc('x', f);
	fclose(f);
	no_image(path, -EBADMSG, SNAP_FAILURE_IMAGE);
	unlink(path);
}

static void read_outside(void **state)
{
	struct snap_image_info info = {.size = 0};
	struct snap_image_region region = {.size = 0};
	enum snap_page_kind kind;
	struct snap_image *img;
	uint64_t count;
	uint8_t buf[16];

	(void)state;
	make_image();
	assert_int_equal(snap_image_open(&img, path), 0);
	expect_error(snap_image_get_info(img, &info), -EINVAL,
		     SNAP_FAILURE_USAGE, "size");
	expect_error(snap_image_get_region(img, 0, &region), -EINVAL,
		     SNAP_FAILURE_USAGE, "size");
	region.size = sizeof(region);
	expect_error(snap_image_get_region(img, 1, &region), -ENOENT,
		     SNAP_FAILURE_USAGE, "");
	expect_error(snap_image_read(img, 1, 0, buf, 16), -ENOENT,
		     SNAP_FAILURE_USAGE, "");
	expect_error(snap_image_read(img, 0, ram.len, buf, 1), -EINVAL,
		     SNAP_FAILURE_USAGE, "");
	expect_error(snap_image_read(img, 0, ram.len - 8, buf, 16), -EINVAL,
		     SNAP_FAILURE_USAGE, "");
	expect_error(snap_image_read(img, 0, UINT64_MAX - 4, buf, 16), -EINVAL,
		     SNAP_FAILURE_USAGE, "");
	assert_int_equal(snap_image_read(img, 0, ram.len - 8, buf, 8), 0);
	assert_int_equal(snap_image_read(img, 0, ram.len, buf, 0), 0);
	expect_error(
		snap_image_page_kind(img, 0, ram.len / 4096, &kind, &count),
		-EINVAL, SNAP_FAILURE_USAGE, "");
	expect_error(snap_image_page_kind(img, 1, 0, &kind, &count), -ENOENT,
		     SNAP_FAILURE_USAGE, "");
	assert_int_equal(snap_image_page_kind(img, 0, 0, &kind, &count), 0);
	assert_int_equal(kind, SNAP_PAGE_DATA);
	assert_int_equal(count, 2 * MB / 4096);
	expect_error(snap_image_get_device_state(img, 0, NULL, NULL, NULL),
		     -ENOENT, SNAP_FAILURE_USAGE, "");
	expect_error(snap_image_find_device_state(img, "cpu", NULL, NULL),
		     -ENOENT, SNAP_FAILURE_USAGE, "cpu");
	snap_image_close(img);
	unlink(path);
}

static void restore_to_a_wrong_place(void **state)
{
	struct snap_image *img;
	struct ram to;

	(void)state;
	make_image();
	assert_int_equal(ram_make(&to, RAM_ANON, 4 * MB), 0);
	assert_int_equal(snap_image_open(&img, path), 0);
	expect_error(snap_restore(img, 0, to.addr, 2 * MB, 1), -EINVAL,
		     SNAP_FAILURE_USAGE, "");
	expect_error(snap_restore(img, 0, to.addr + 64, to.len, 1), -EINVAL,
		     SNAP_FAILURE_USAGE, "");
	expect_error(snap_restore(img, 1, to.addr, to.len, 1), -ENOENT,
		     SNAP_FAILURE_USAGE, "");
	munmap(to.addr + MB, 4096);
	expect_error(snap_restore(img, 0, to.addr, to.len, 1), -EFAULT,
		     SNAP_FAILURE_USAGE, "");
	snap_image_close(img);
	ram_free(&to);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_exists),
		cmocka_unit_test(a_directory),
		cmocka_unit_test(a_fifo),
		cmocka_unit_test(no_such_directory),
		cmocka_unit_test(a_file_as_directory),
		cmocka_unit_test(a_name_too_long),
		cmocka_unit_test(a_closed_descriptor),
		cmocka_unit_test(a_descriptor_that_cannot_be_written),
		cmocka_unit_test(a_directory_that_may_not_be_written),
		cmocka_unit_test(an_unprivileged_user),
		cmocka_unit_test(files_that_are_no_image),
		cmocka_unit_test(read_outside),
		cmocka_unit_test(restore_to_a_wrong_place),
	};

	return scene_exit_code(cmocka_run_group_tests_name(
		"outputs", tests, make_place, drop_place));
}

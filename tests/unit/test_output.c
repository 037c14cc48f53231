// SPDX-License-Identifier: MIT
/* The output file: refusals before anything is made, nothing left behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "libsnap.h"
#include "output.h"
#include "sys.h"
#include "util/util.h"

/* After ours: it makes a macro of fail, the member of struct failure_sink. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What the next calls give instead of doing anything; 0: the real thing. */
static struct {
	int open_excl, open_direct, open_directory;
	int fallocate, ftruncate, fsync, rename, rename_noreplace;
	int fsync_directory;
	ssize_t pwrite;
	uint64_t free_bytes; /* 0: the real thing */
} fake;

static char calls[256];
static char dir[64], path[96];

static void record(const char *call)
{
	strncat(calls, call, sizeof(calls) - strlen(calls) - 1);
	strncat(calls, " ", sizeof(calls) - strlen(calls) - 1);
}

int __real_sys_open(const char *p, int flags, mode_t mode);
int __wrap_sys_open(const char *p, int flags, mode_t mode);
int __real_sys_fallocate(int fd, int mode, uint64_t offset, uint64_t len);
int __wrap_sys_fallocate(int fd, int mode, uint64_t offset, uint64_t len);
int __real_sys_ftruncate(int fd, uint64_t len);
int __wrap_sys_ftruncate(int fd, uint64_t len);
int __real_sys_fsync(int fd);
int __wrap_sys_fsync(int fd);
int __real_sys_rename(const char *from, const char *to);
int __wrap_sys_rename(const char *from, const char *to);
int __real_sys_rename_noreplace(const char *from, const char *to);
int __wrap_sys_rename_noreplace(const char *from, const char *to);
int __real_sys_fstatfs(int fd, struct statfs *st);
int __wrap_sys_fstatfs(int fd, struct statfs *st);
ssize_t __real_sys_pwrite(int fd, const void *b, size_t len, uint64_t offset);
ssize_t __wrap_sys_pwrite(int fd, const void *b, size_t len, uint64_t offset);

int __wrap_sys_open(const char *p, int flags, mode_t mode)
{
	if ((flags & O_EXCL) && fake.open_excl)
		return fake.open_excl;
	if ((flags & O_DIRECTORY) && fake.open_directory)
		return fake.open_directory;
	if ((flags & O_DIRECT) && fake.open_direct) {
		/* As do_dentry_open() does: made, then refused. */
		sys_close(__real_sys_open(p, flags & ~O_DIRECT, mode));
		return fake.open_direct;
	}
	return __real_sys_open(p, flags, mode);
}

int __wrap_sys_fallocate(int fd, int mode, uint64_t offset, uint64_t len)
{
	record("fallocate");
	if (fake.fallocate == -EINTR) {
		fake.fallocate = 0;
		return -EINTR;
	}
	if (fake.fallocate)
		return fake.fallocate;
	return __real_sys_fallocate(fd, mode, offset, len);
}

int __wrap_sys_ftruncate(int fd, uint64_t len)
{
	record("ftruncate");
	return fake.ftruncate ? fake.ftruncate : __real_sys_ftruncate(fd, len);
}

int __wrap_sys_fsync(int fd)
{
	struct stat st;

	assert_int_equal(sys_fstat(fd, &st), 0);
	if (S_ISDIR(st.st_mode)) {
		record("fsync-dir");
		return fake.fsync_directory ? fake.fsync_directory
					    : __real_sys_fsync(fd);
	}
	record("fsync");
	return fake.fsync ? fake.fsync : __real_sys_fsync(fd);
}

int __wrap_sys_rename(const char *from, const char *to)
{
	record("rename");
	return fake.rename ? fake.rename : __real_sys_rename(from, to);
}

int __wrap_sys_rename_noreplace(const char *from, const char *to)
{
	record("rename");
	return fake.rename_noreplace ? fake.rename_noreplace
				     : __real_sys_rename_noreplace(from, to);
}

int __wrap_sys_fstatfs(int fd, struct statfs *st)
{
	int err = __real_sys_fstatfs(fd, st);

	if (fake.free_bytes)
		st->f_bavail = fake.free_bytes / (uint64_t)st->f_bsize;
	return err;
}

ssize_t __wrap_sys_pwrite(int fd, const void *b, size_t len, uint64_t offset)
{
	return fake.pwrite ? fake.pwrite
			   : __real_sys_pwrite(fd, b, len, offset);
}

static int setup(void **state)
{
	memset(&fake, 0, sizeof(fake));
	calls[0] = '\0';
	strcpy(dir, "snap-test-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/guest.snap", dir);
	return 0;
}

static unsigned files_left(void)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2; /* . and .. */
}

static int teardown(void **state)
{
	unlink(path);
	return rmdir(dir); /* fails when something is left behind */
}

static void put_file(const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void assert_file_is(const char *text)
{
	char buf[64] = "";
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(read(fd, buf, sizeof(buf) - 1), strlen(text));
	close(fd);
	assert_string_equal(buf, text);
}

/* The call fails so, says so and leaves nothing but @left files behind. */
static void assert_refused(int err, const char *says, unsigned flags,
			   unsigned left)
{
	struct output o;

	assert_int_equal(output_create(&o, path, flags, MIB), err);
	assert_non_null(strstr(error_text(), says));
	assert_non_null(strstr(error_text(), path));
	assert_int_equal(error_failure(), SNAP_FAILURE_OUTPUT);
	assert_int_equal(files_left(), left);
}

static void a_file_appears_under_its_name_when_published(void **state)
{
	struct output o;
	struct stat st;

	assert_int_equal(output_create(&o, path, 0, MIB), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(files_left(), 1);
	assert_int_equal(output_sync(&o, 8192), 0);
	assert_int_equal(output_publish(&o), 0);
	output_release(&o);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 8192);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(files_left(), 1);
}

static void data_is_on_disk_before_the_name(void **state)
{
	struct output o;

	assert_int_equal(output_create(&o, path, 0, MIB), 0);
	assert_int_equal(output_sync(&o, 4096), 0);
	assert_int_equal(output_publish(&o), 0);
	output_release(&o);
	assert_string_equal(calls,
			    "fallocate ftruncate fsync rename fsync-dir ");
}

static void a_bare_name_is_a_file_here(void **state)
{
	struct output o;

	strcpy(path, "snap-test-bare-name");
	assert_int_equal(output_create(&o, path, 0, MIB), 0);
	assert_int_equal(output_sync(&o, 4096), 0);
	assert_int_equal(output_publish(&o), 0);
	output_release(&o);
	assert_int_equal(access(path, F_OK), 0);
}

static void a_long_name_has_room_for_the_temporary_one(void **state)
{
	char name[256], full[400];
	struct output o;

	memset(name, 'x', 255);
	name[255] = '\0';
	snprintf(full, sizeof(full), "%s/%s", dir, name);
	assert_int_equal(output_create(&o, full, 0, MIB), 0);
	output_release(&o);
	assert_int_equal(files_left(), 0);
}

static void no_preallocation_when_not_wanted(void **state)
{
	struct output o;

	fake.fallocate = -ENOSPC;
	assert_int_equal(output_create(&o, path, SNAP_NO_PREALLOCATE, MIB), 0);
	output_release(&o);
	assert_string_equal(calls, "");
}

static void a_name_that_exists_is_refused(void **state)
{
	put_file("old");
	assert_refused(-EEXIST, "exists", 0, 1);
	assert_file_is("old");
}

static void a_dangling_link_counts_as_existing(void **state)
{
	assert_int_equal(symlink("nowhere", path), 0);
	assert_refused(-EEXIST, "exists", 0, 1);
}

static void a_directory_is_refused(void **state)
{
	assert_int_equal(mkdir(path, 0700), 0);
	assert_refused(-EISDIR, "is a directory", SNAP_OVERWRITE, 1);
	assert_int_equal(rmdir(path), 0);
}

static void a_fifo_is_refused_without_opening_it(void **state)
{
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_refused(-EINVAL, "stream", SNAP_OVERWRITE, 1);
}

static void a_missing_directory_is_named(void **state)
{
	struct output o;

	assert_int_equal(output_create(&o, "no-such-dir/x", 0, 0), -ENOENT);
	assert_non_null(strstr(error_text(), "no-such-dir does not exist"));
	assert_int_equal(output_create(&o, "", 0, 0), -EINVAL);
	assert_int_equal(output_create(&o, "/", 0, 0), -EINVAL);
	put_file("a file");
	strcat(path, "/x");
	assert_int_equal(output_create(&o, path, 0, 0), -ENOTDIR);
	*strrchr(path, '/') = '\0';
}

static void a_directory_that_may_not_be_written_is_refused(void **state)
{
	fake.open_excl = -EACCES;
	assert_refused(-EACCES, "Permission denied", 0, 0);
	fake.open_excl = -EROFS;
	assert_refused(-EROFS, "Read-only", 0, 0);
}

static void temporary_names_that_are_taken_are_given_up(void **state)
{
	fake.open_excl = -EEXIST;
	assert_refused(-EEXIST, "cannot create", 0, 0);
}

static void want_of_room_is_found_before_the_pause(void **state)
{
	fake.fallocate = -ENOSPC;
	assert_refused(-ENOSPC, "needs 1.0 MiB, free", 0, 0);
	fake.fallocate = -EDQUOT;
	assert_refused(-EDQUOT, "quota", 0, 0);
	fake.fallocate = -EFBIG;
	assert_refused(-EFBIG, "RLIMIT_FSIZE", 0, 0);
	fake.fallocate = -EIO;
	assert_refused(-EIO, "cannot reserve", 0, 0);
}

static void room_is_counted_where_it_cannot_be_reserved(void **state)
{
	struct output o;

	fake.fallocate = -EOPNOTSUPP;
	fake.free_bytes = MIB - 4096;
	assert_refused(-ENOSPC, "free 1.0 MiB", 0, 0);
	fake.free_bytes = MIB;
	assert_int_equal(output_create(&o, path, 0, MIB), 0);
	output_release(&o);
}

static void an_interrupted_reservation_is_repeated(void **state)
{
	struct output o;

	fake.fallocate = -EINTR;
	assert_int_equal(output_create(&o, path, 0, MIB), 0);
	output_release(&o);
	assert_string_equal(calls, "fallocate fallocate ");
}

static void direct_writes_are_given_up_where_open_refuses(void **state)
{
	struct output o;

	fake.open_direct = -EINVAL;
	assert_int_equal(output_create(&o, path, 0, MIB), 0);
	assert_false(o.direct);
	assert_int_equal(files_left(), 1);
	output_release(&o);
}

static void direct_writes_are_given_up_where_writing_refuses(void **state)
{
	struct output o;

	fake.pwrite = -EINVAL;
	assert_int_equal(output_create(&o, path, 0, MIB), 0);
	assert_false(o.direct);
	assert_true(o.fd >= 0);
	output_release(&o);

	fake.pwrite = -EIO;
	assert_refused(-EIO, "cannot write", 0, 0);
	fake.pwrite = -ENOSPC;
	assert_refused(-ENOSPC, "not enough room", SNAP_NO_PREALLOCATE, 0);
}

static void direct_writes_are_not_tried_when_not_wanted(void **state)
{
	struct output o;

	fake.pwrite = -EIO;
	assert_int_equal(output_create(&o, path, SNAP_NO_DIRECT, MIB), 0);
	assert_false(o.direct);
	output_release(&o);
}

static void overwriting_happens_at_the_very_end(void **state)
{
	struct output o;

	put_file("old");
	assert_int_equal(output_create(&o, path, SNAP_OVERWRITE, MIB), 0);
	assert_int_equal(output_sync(&o, 0), 0);
	assert_file_is("old");
	assert_int_equal(output_publish(&o), 0);
	output_release(&o);
	assert_file_is("");
}

static void a_name_taken_meanwhile_is_left_alone(void **state)
{
	/* -EINVAL: the file system has only link() for this. */
	static const int renames[] = {0, -EINVAL};
	struct output o;

	for (size_t i = 0; i < ARRAY_SIZE(renames); i++) {
		fake.rename_noreplace = renames[i];
		assert_int_equal(output_create(&o, path, 0, MIB), 0);
		put_file("theirs");
		assert_int_equal(output_sync(&o, 0), 0);
		assert_int_equal(output_publish(&o), -EEXIST);
		assert_non_null(strstr(error_text(), "meanwhile"));
		output_release(&o);
		assert_file_is("theirs");
		assert_int_equal(files_left(), 1);
		assert_int_equal(unlink(path), 0);
	}
}

static void a_link_does_where_rename_cannot_refuse(void **state)
{
	struct output o;

	fake.rename_noreplace = -EINVAL;
	assert_int_equal(output_create(&o, path, 0, MIB), 0);
	assert_int_equal(output_sync(&o, 4096), 0);
	assert_int_equal(output_publish(&o), 0);
	output_release(&o);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(files_left(), 1);
}

static void assert_finish_fails(int err, const char *says)
{
	struct output o;
	int got;

	assert_int_equal(output_create(&o, path, 0, MIB), 0);
	got = output_sync(&o, 4096);
	if (!got)
		got = output_publish(&o);
	assert_int_equal(got, err);
	assert_non_null(strstr(error_text(), says));
	assert_int_equal(error_failure(), SNAP_FAILURE_OUTPUT);
	output_release(&o);
	assert_int_equal(files_left(), 0);
}

static void every_failure_at_the_end_leaves_nothing(void **state)
{
	fake.ftruncate = -EIO;
	assert_finish_fails(-EIO, "length");
	fake.ftruncate = 0;
	fake.fsync = -EIO;
	assert_finish_fails(-EIO, "disk");
	fake.fsync = 0;
	fake.rename_noreplace = -EACCES;
	assert_finish_fails(-EACCES, "cannot name");
	fake.rename_noreplace = 0;
	fake.fsync_directory = -EIO;
	assert_finish_fails(-EIO, "directory");
	fake.fsync_directory = 0;
	fake.open_directory = -EMFILE;
	assert_finish_fails(-EMFILE, "directory");
}

static void a_directory_that_cannot_be_synced_is_no_failure(void **state)
{
	struct output o;

	fake.fsync_directory = -EINVAL;
	assert_int_equal(output_create(&o, path, 0, MIB), 0);
	assert_int_equal(output_sync(&o, 4096), 0);
	assert_int_equal(output_publish(&o), 0);
	output_release(&o);
	assert_int_equal(access(path, F_OK), 0);
}

#define with_dir(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_dir(a_file_appears_under_its_name_when_published),
		with_dir(data_is_on_disk_before_the_name),
		with_dir(a_bare_name_is_a_file_here),
		with_dir(a_long_name_has_room_for_the_temporary_one),
		with_dir(no_preallocation_when_not_wanted),
		with_dir(a_name_that_exists_is_refused),
		with_dir(a_dangling_link_counts_as_existing),
		with_dir(a_directory_is_refused),
		with_dir(a_fifo_is_refused_without_opening_it),
		with_dir(a_missing_directory_is_named),
		with_dir(a_directory_that_may_not_be_written_is_refused),
		with_dir(temporary_names_that_are_taken_are_given_up),
		with_dir(want_of_room_is_found_before_the_pause),
		with_dir(room_is_counted_where_it_cannot_be_reserved),
		with_dir(an_interrupted_reservation_is_repeated),
		with_dir(direct_writes_are_given_up_where_open_refuses),
		with_dir(direct_writes_are_given_up_where_writing_refuses),
		with_dir(direct_writes_are_not_tried_when_not_wanted),
		with_dir(overwriting_happens_at_the_very_end),
		with_dir(a_name_taken_meanwhile_is_left_alone),
		with_dir(a_link_does_where_rename_cannot_refuse),
		with_dir(every_failure_at_the_end_leaves_nothing),
		with_dir(a_directory_that_cannot_be_synced_is_no_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

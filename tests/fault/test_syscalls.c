// SPDX-License-Identifier: MIT
/*
 * Each system call fails once, by index: the snapshot either is exact, or it
 * fails with the memory released, a text, and no file.
 *
 * How it works.  The linker gives the library our sys_*(): the n-th call of one
 * of them gives an error instead of calling the kernel.  close() and munmap()
 * do their work nevertheless, as the kernel's do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/scene.h"
#include "sys.h"

#define MB ((size_t)1 << 20)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define INDEX_MAX 40

enum call {
	CALL_open,
	CALL_close,
	CALL_read,
	CALL_pread,
	CALL_write,
	CALL_pwrite,
	CALL_write_nowait,
	CALL_lseek,
	CALL_fallocate,
	CALL_ftruncate,
	CALL_fsync,
	CALL_fstat,
	CALL_stat,
	CALL_fstatfs,
	CALL_link,
	CALL_rename,
	CALL_rename_noreplace,
	CALL_unlink,
	CALL_ioctl,
	CALL_getdents,
	CALL_getfl,
	CALL_poll,
	CALL_eventfd,
	CALL_userfaultfd,
	CALL_mmap,
	CALL_munmap,
	CALL_madvise,
	CALL_process_vm_readv,
	CALL_process_vm_writev,
	CALLS,
};

static const char *const call_names[CALLS] = {
	"open",
	"close",
	"read",
	"pread",
	"write",
	"pwrite",
	"write_nowait",
	"lseek",
	"fallocate",
	"ftruncate",
	"fsync",
	"fstat",
	"stat",
	"fstatfs",
	"link",
	"rename",
	"rename_noreplace",
	"unlink",
	"ioctl",
	"getdents",
	"getfl",
	"poll",
	"eventfd",
	"userfaultfd",
	"mmap",
	"munmap",
	"madvise",
	"process_vm_readv",
	"process_vm_writev",
};

static atomic_int failing = CALLS; /* which call; CALLS: none */
static atomic_int countdown;	   /* 1: the next one */
static atomic_int error;
static int failing_index;
static atomic_uint seen[CALLS];
static atomic_bool counting;

static int inject(enum call c)
{
	if (atomic_load(&counting))
		atomic_fetch_add(&seen[c], 1);
	if (atomic_load(&failing) != (int)c)
		return 0;
	return atomic_fetch_sub(&countdown, 1) == 1 ? atomic_load(&error) : 0;
}

/* One line defines a wrapper of the system call's own type. */
#define WRAP(type, name, params, args)                                         \
	type __real_sys_##name params;                                         \
	type __wrap_sys_##name params;                                         \
	type __wrap_sys_##name params                                          \
	{                                                                      \
		int err = inject(CALL_##name);                                 \
                                                                               \
		return err ? err : __real_sys_##name args;                     \
	}

WRAP(int, open, (const char *path, int flags, mode_t mode), (path, flags, mode))
WRAP(ssize_t, read, (int fd, void *buf, size_t len), (fd, buf, len))
WRAP(ssize_t, pread, (int fd, void *buf, size_t len, uint64_t offset),
     (fd, buf, len, offset))
WRAP(ssize_t, pwrite, (int fd, const void *buf, size_t len, uint64_t offset),
     (fd, buf, len, offset))
WRAP(ssize_t, write_nowait, (int fd, const void *buf, size_t len),
     (fd, buf, len))
WRAP(int64_t, lseek, (int fd, int64_t offset, int whence), (fd, offset, whence))
WRAP(int, fallocate, (int fd, int mode, uint64_t offset, uint64_t len),
     (fd, mode, offset, len))
WRAP(int, ftruncate, (int fd, uint64_t len), (fd, len))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, fstat, (int fd, struct stat *st), (fd, st))
WRAP(int, stat, (const char *path, struct stat *st), (path, st))
WRAP(int, fstatfs, (int fd, struct statfs *st), (fd, st))
WRAP(int, link, (const char *from, const char *to), (from, to))
WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, rename_noreplace, (const char *from, const char *to), (from, to))
WRAP(int, ioctl, (int fd, unsigned long request, void *arg), (fd, request, arg))
WRAP(ssize_t, getdents, (int fd, void *buf, size_t len), (fd, buf, len))
WRAP(int, getfl, (int fd), (fd))
WRAP(int, poll, (struct pollfd * fds, nfds_t n, int timeout_ms),
     (fds, n, timeout_ms))
WRAP(int, eventfd, (unsigned initial), (initial))
WRAP(int, userfaultfd, (int flags), (flags))
WRAP(int, mmap,
     (void **out, size_t len, int prot, int flags, int fd, uint64_t offset),
     (out, len, prot, flags, fd, offset))
WRAP(int, madvise, (void *addr, size_t len, int advice), (addr, len, advice))
WRAP(ssize_t, process_vm_readv,
     (pid_t pid, const struct iovec *local, size_t n,
      const struct iovec *remote, size_t m),
     (pid, local, n, remote, m))
WRAP(ssize_t, process_vm_writev,
     (pid_t pid, const struct iovec *local, size_t n,
      const struct iovec *remote, size_t m),
     (pid, local, n, remote, m))

ssize_t __real_sys_write(int fd, const void *buf, size_t len);
ssize_t __wrap_sys_write(int fd, const void *buf, size_t len);

/* Eight bytes go to an eventfd, which cannot fail below 2^64 (fs/eventfd.c). */
ssize_t __wrap_sys_write(int fd, const void *buf, size_t len)
{
	int err = len == sizeof(uint64_t) ? 0 : inject(CALL_write);

	return err ? err : __real_sys_write(fd, buf, len);
}

/* These say they failed when the work is done. */
#define WRAP_DONE(name, params, args)                                          \
	int __real_sys_##name params;                                          \
	int __wrap_sys_##name params;                                          \
	int __wrap_sys_##name params                                           \
	{                                                                      \
		int got = __real_sys_##name args;                              \
		int err = inject(CALL_##name);                                 \
                                                                               \
		return err ? err : got;                                        \
	}

WRAP_DONE(close, (int fd), (fd))
WRAP_DONE(munmap, (void *addr, size_t len), (addr, len))
WRAP_DONE(unlink, (const char *path), (path))

/* ---- one life with one failure ---- */

static const struct scene_config configs[] = {
	{.name = "anon", .ram_len = 4 * MB, .threads = 1, .nap_us = 100},
	{.name = "memfd",
	 .kind = RAM_MEMFD,
	 .fill = FILL_HALF,
	 .ram_len = 4 * MB,
	 .threads = 1,
	 .nap_us = 100,
	 .options.flags = SNAP_NO_IO_URING},
	{.name = "thp",
	 .kind = RAM_THP,
	 .ram_len = 4 * MB,
	 .threads = 1,
	 .nap_us = 100,
	 .options.compress = SNAP_COMPRESS_ZSTD},
};

static int make(struct snap **s, struct scene *sc, const char *path)
{
	struct snap_options opts = sc->cfg->options;
	struct snap_region r = {
		.size = sizeof(r), .addr = sc->ram.addr, .length = sc->ram.len};
	int err;

	opts.size = sizeof(opts);
	opts.output = path;
	opts.max_buffer = 16 * MB;
	err = snap_create(s, &opts);
	if (!err)
		err = snap_add_region(*s, &r);
	return err ? err : snap_prepare(*s);
}

static struct outcome live_once(struct scene *sc, const char *path)
{
	struct snap *s = NULL;
	int err = make(&s, sc, path);
	struct outcome o;

	assert_int_equal(mutator_pause(sc->mutator, &sc->at), 0);
	if (!err)
		err = snap_begin(s);
	mutator_resume(sc->mutator);
	if (!err)
		err = snap_wait(s, 20000);
	o = outcome_of(err);
	if (err == -EINPROGRESS) {
		char *json = snap_stats_json(s);

		print_error("sys_%s #%d gives %d: no end, state %d %s\n",
			    call_names[atomic_load(&failing) % CALLS],
			    failing_index, atomic_load(&error), snap_state(s),
			    json ? json : "");
		abort();
	}
	snap_destroy(s);
	atomic_store(&failing, CALLS);
	return o;
}

static void check_clean(struct scene *sc)
{
	struct mutator_counts at;
	struct proc_census now;
	struct proc_range range;

	proc_census(&now);
	for (int i = 0; i < 2500 && now.threads > sc->before.threads; i++) {
		scene_nap_ms(2);
		proc_census(&now);
	}
	assert_int_equal(now.threads, sc->before.threads);
	assert_int_equal(now.userfaultfds, sc->before.userfaultfds);
	assert_int_equal(now.fds, sc->before.fds);
	proc_range(sc->ram.addr, sc->ram.len, &range);
	assert_int_equal(range.uffd_mappings, 0);
	assert_int_equal(mutator_pause(sc->mutator, &at), 0);
	mutator_resume(sc->mutator);
}

static void check_exact(struct scene *sc, const char *path)
{
	struct snap_image *img;
	uint8_t *got = malloc(sc->ram.len);

	assert_non_null(got);
	assert_int_equal(snap_image_verify(path), 0);
	assert_int_equal(snap_image_open(&img, path), 0);
	assert_int_equal(snap_image_read(img, 0, 0, got, sc->ram.len), 0);
	snap_image_close(img);
	assert_true(scene_same(sc, "image", 0, got, sc->ram.len));
	free(got);
	unlink(path);
}

static void fail_one(struct scene *sc, enum call c, int index, int err)
{
	char path[SCENE_PATH_MAX];
	struct outcome o;

	snprintf(path, sizeof(path), "%s/x.snap", sc->dir);
	failing_index = index;
	atomic_store(&countdown, index);
	atomic_store(&error, err);
	atomic_store(&failing, (int)c);
	o = live_once(sc, path);
	scene_model_to(sc, &sc->at);
	if (o.err == 0)
		check_exact(sc, path);
	else if (!o.text[0] || o.failure == SNAP_FAILURE_NONE)
		fail_msg("sys_%s #%d gives %d: fails without a reason",
			 call_names[c], index, err);
	if (scene_files(sc))
		fail_msg("sys_%s #%d gives %d: a file is left (%d %s)",
			 call_names[c], index, err, o.err, o.text);
	check_clean(sc);
}

static void count_calls(struct scene *sc)
{
	char path[SCENE_PATH_MAX];
	struct outcome o;

	snprintf(path, sizeof(path), "%s/x.snap", sc->dir);
	for (int c = 0; c < CALLS; c++)
		atomic_store(&seen[c], 0);
	atomic_store(&counting, true);
	o = live_once(sc, path);
	atomic_store(&counting, false);
	expect_outcome(&o, 0, SNAP_FAILURE_NONE, "");
	unlink(path);
}

static void every_call_may_fail(void **state)
{
	static const int errors[] = {-EIO, -ENOMEM, -EINTR};
	unsigned lives = 0;
	struct scene sc;

	scene_open(&sc, *state);
	count_calls(&sc);
	for (int c = 0; c < CALLS; c++) {
		unsigned n = atomic_load(&seen[c]);

		n = n > INDEX_MAX ? INDEX_MAX : n;
		for (unsigned i = 1; i <= n; i++, lives++)
			fail_one(&sc, (enum call)c, (int)i,
				 errors[lives % COUNT(errors)]);
		for (unsigned i = 1; i <= n && i <= 3; i++, lives++)
			fail_one(&sc, (enum call)c, (int)i,
				 errors[(i + 1) % COUNT(errors)]);
	}
	assert_true(lives > 20);
	scene_close(&sc);
}

int main(void)
{
	struct CMUnitTest tests[COUNT(configs)];

	for (size_t i = 0; i < COUNT(configs); i++)
		tests[i] = (struct CMUnitTest){.name = configs[i].name,
					       .test_func = every_call_may_fail,
					       .initial_state =
						       (void *)&configs[i]};
	return scene_exit_code(
		cmocka_run_group_tests_name("syscalls", tests, NULL, NULL));
}

// SPDX-License-Identifier: MIT
/*
 * Snapshots of another process: exact, of one instant, and the process is none
 * the worse for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/ram.h"
#include "lib/tickets.h"
#include "libsnap.h"

#define MB ((size_t)1 << 20)
#define WRITERS_MAX 4

struct other_case {
	const char *name;
	enum ram_kind kind;
	size_t len;
	unsigned writers;
	unsigned nap_us;
};

/* Shared with the process that is saved. */
struct shared {
	_Atomic uint32_t ready, stop;
	_Atomic uint64_t addr;
	_Atomic uint64_t wrong; /* words of its live RAM at the end, plus 1 */
	char why[200];
};

struct other {
	const struct other_case *c;
	struct shared *shared;
	pid_t pid;
	char path[64];
};

static struct ram child_ram;
static struct shared *child_shared;
static unsigned child_nap;

static void *writer_main(void *arg)
{
	(void)arg;
	tickets_write(child_ram.addr, child_ram.len, &child_shared->stop,
		      child_nap);
	return NULL;
}

static void child_main(const struct other_case *c, struct shared *s)
{
	pthread_t writers[WRITERS_MAX];

	if (ram_make(&child_ram, c->kind, c->len)) {
		snprintf(s->why, sizeof(s->why), "%s", ram_why());
		atomic_store(&s->ready, 2);
		_exit(1);
	}
	memset(child_ram.addr, 0, child_ram.len / 2); /* the rest has holes */
	child_shared = s;
	child_nap = c->nap_us;
	for (unsigned i = 0; i < c->writers; i++)
		if (pthread_create(&writers[i], NULL, writer_main, NULL))
			_exit(1);
	atomic_store(&s->addr, (uint64_t)(uintptr_t)child_ram.addr);
	usleep(50000);
	atomic_store(&s->ready, 1);
	for (unsigned i = 0; i < c->writers; i++)
		pthread_join(writers[i], NULL);
	atomic_store(&s->wrong,
		     1 + tickets_wrong(child_ram.addr, child_ram.len, 0));
	_exit(0);
}

static void other_start(struct other *o, const struct other_case *c)
{
	o->c = c;
	snprintf(o->path, sizeof(o->path), "other-%d.snap", (int)getpid());
	unlink(o->path);
	o->shared = mmap(NULL, sizeof(*o->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(o->shared, MAP_FAILED);
	o->pid = fork();
	assert_true(o->pid >= 0);
	if (!o->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_main(c, o->shared);
	}
	for (unsigned i = 0; i < 100000 && !atomic_load(&o->shared->ready); i++)
		usleep(100);
	if (atomic_load(&o->shared->ready) == 2) {
		waitpid(o->pid, NULL, 0);
		print_message("%s\n", o->shared->why);
		skip();
	}
	assert_int_equal(atomic_load(&o->shared->ready), 1);
}

/* No write was lost to the very end. */
static void other_finish(struct other *o)
{
	int status;

	atomic_store(&o->shared->stop, 1);
	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	assert_int_equal(status, 0);
	assert_int_equal(atomic_load(&o->shared->wrong), 1);
	munmap(o->shared, sizeof(*o->shared));
	unlink(o->path);
}

static void add_ram(struct snap *s, const struct other *o)
{
	const struct snap_region r = {
		.size = sizeof(r),
		.name = "ram",
		.addr = (void *)(uintptr_t)atomic_load(&o->shared->addr),
		.length = o->c->len,
	};

	assert_int_equal(snap_add_region(s, &r), 0);
}

static struct snap *other_snap(const struct other *o)
{
	const struct snap_options opts = {
		.size = sizeof(opts),
		.output = o->path,
		.pid = o->pid,
	};
	struct snap *s;

	assert_int_equal(snap_create(&s, &opts), 0);
	return s;
}

static void expect_ok(int err)
{
	if (err)
		fail_msg("%d: %s", err, snap_error_message());
}

/* Of the image: the region at address @start, as one buffer. */
static uint8_t *load_region(const char *path, uint64_t start, size_t len)
{
	struct snap_image *img;
	struct snap_image_region r = {.size = sizeof(r)};
	uint8_t *copy = malloc(len);
	uint32_t i = 0;

	assert_non_null(copy);
	expect_ok(snap_image_open(&img, path));
	expect_ok(snap_image_verify(path));
	do
		expect_ok(snap_image_get_region(img, i++, &r));
	while (r.start > start || r.start + r.length < start + len);
	expect_ok(snap_image_read(img, i - 1, start - r.start, copy, len));
	snap_image_close(img);
	return copy;
}

static void check_image(const struct other *o)
{
	uint8_t *copy =
		load_region(o->path, atomic_load(&o->shared->addr), o->c->len);

	assert_true(tickets_taken(copy) > 0);
	assert_int_equal(tickets_wrong(copy, o->c->len, o->c->writers), 0);
	free(copy);
}

static void image_is_of_one_instant(void **state)
{
	struct other o;
	struct snap *s;

	other_start(&o, *state);
	for (unsigned round = 0; round < 3; round++) {
		struct snap_stats st = {.size = sizeof(st)};

		s = other_snap(&o);
		add_ram(s, &o);
		expect_ok(snap_prepare(s));
		expect_ok(snap_begin(s));
		expect_ok(snap_wait(s, 60000));
		snap_get_stats(s, &st);
		assert_int_equal(st.pages_total, o.c->len / 4096);
		assert_int_equal(st.pages_total,
				 st.pages_by_fault + st.pages_by_sweep +
					 st.pages_in_pause + st.pages_absent);
		assert_true(st.attach_ns > 0);
		snap_destroy(s);
		check_image(&o);
		unlink(o.path);
	}
	other_finish(&o);
}

static const struct other_case anon = {"anon", RAM_ANON, 64 * MB, 2, 0};

static void ram_is_found_by_itself(void **state)
{
	struct snap_region_info info = {.size = sizeof(info)};
	struct snap_stats st = {.size = sizeof(st)};
	struct other o;
	struct snap *s;
	bool heap = false;

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	print_message("the address sanitizer has terabytes of holes\n");
	skip();
#endif
	other_start(&o, &anon);
	s = other_snap(&o);
	expect_ok(snap_add_ram(s));
	for (size_t i = 0; !snap_get_region(s, i, &info); i++) {
		assert_true(info.why[0]);
		heap |= !strcmp(info.why, "the first thread's stack");
	}
	assert_true(heap);
	expect_ok(snap_begin(s));
	expect_ok(snap_wait(s, 60000));
	snap_get_stats(s, &st);
	assert_true(st.pages_in_pause > 0); /* .data of the C library */
	snap_destroy(s);
	check_image(&o);
	other_finish(&o);
}

static void terabytes_of_holes_are_refused(void **state)
{
	struct shared *sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct snap_options opts = {.size = sizeof(opts)};
	struct snap *s;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (mmap(NULL, (size_t)1 << 44, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			 0) == MAP_FAILED)
			_exit(1);
		atomic_store(&sh->ready, 1);
		pause();
	}
	while (!atomic_load(&sh->ready))
		usleep(100);
	opts.pid = pid;
	assert_int_equal(snap_create(&s, &opts), 0);
	assert_int_equal(snap_add_ram(s), -E2BIG);
	assert_int_equal(snap_error_failure(), SNAP_FAILURE_REFUSED);
	snap_destroy(s);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	munmap(sh, sizeof(*sh));
}

static void process_that_is_killed_is_gone(void **state)
{
	struct other o;
	struct snap *s;
	struct snap_options opts = {.size = sizeof(opts),
				    .bandwidth = 4 * MB,
				    .max_buffer = 16 * MB};

	(void)state;
	other_start(&o, &anon);
	opts.output = o.path;
	opts.pid = o.pid;
	assert_int_equal(snap_create(&s, &opts), 0);
	add_ram(s, &o);
	expect_ok(snap_begin(s));
	kill(o.pid, SIGKILL);
	assert_int_equal(snap_wait(s, 10000), -ESRCH);
	assert_int_equal(snap_error_failure(), SNAP_FAILURE_GONE);
	snap_destroy(s);
	assert_int_equal(access(o.path, F_OK), -1);
	waitpid(o.pid, NULL, 0);
	munmap(o.shared, sizeof(*o.shared));
}

static void call_exec(int sig)
{
	(void)sig;
	execl("/bin/sleep", "sleep", "1000", (char *)NULL);
	_exit(1);
}

/* The address space goes, the process stays: what is read from it afterwards
 * would be of another program. */
static void process_that_calls_exec_is_gone(void **state)
{
	struct snap_options opts = {.size = sizeof(opts),
				    .bandwidth = 4 * MB,
				    .max_buffer = 16 * MB};
	struct other o;
	struct snap *s;

	(void)state;
	signal(SIGUSR1, call_exec);
	other_start(&o, &anon);
	signal(SIGUSR1, SIG_DFL);
	opts.output = o.path;
	opts.pid = o.pid;
	assert_int_equal(snap_create(&s, &opts), 0);
	add_ram(s, &o);
	expect_ok(snap_begin(s));
	kill(o.pid, SIGUSR1);
	assert_int_equal(snap_wait(s, 20000), -ESRCH);
	assert_int_equal(snap_error_failure(), SNAP_FAILURE_GONE);
	snap_destroy(s);
	assert_int_equal(access(o.path, F_OK), -1);
	kill(o.pid, SIGKILL);
	waitpid(o.pid, NULL, 0);
	munmap(o.shared, sizeof(*o.shared));
}

/* No mapping of the process is registered with a userfaultfd (VmFlags). */
static bool is_released(pid_t pid)
{
	char path[48], *line = NULL;
	bool released = true;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (getline(&line, &room, f) > 0)
		if (!strncmp(line, "VmFlags:", 8) && strstr(line, " uw"))
			released = false;
	free(line);
	fclose(f);
	return released;
}

/* What a saving process that was killed leaves, under another name. */
static void remove_partial(const struct other *o)
{
	char pattern[80];
	glob_t found;

	snprintf(pattern, sizeof(pattern), ".%s.*.partial", o->path);
	if (glob(pattern, GLOB_PERIOD, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		unlink(found.gl_pathv[i]);
	globfree(&found);
}

/* The child is killed with a snapshot in its hands, again and again. */
static void death_of_the_saving_process_frees_the_other(void **state)
{
	struct other o;

	(void)state;
	other_start(&o, &anon);
	for (unsigned round = 0; round < 20; round++) {
		pid_t saver = fork();

		if (!saver) {
			struct snap *s = other_snap(&o);

			add_ram(s, &o);
			if (snap_begin(s))
				_exit(1);
			snap_wait(s, -1);
			snap_destroy(s);
			_exit(0);
		}
		usleep(1000 + 1500 * round);
		kill(saver, SIGKILL);
		waitpid(saver, NULL, 0);
		assert_true(is_released(o.pid));
		remove_partial(&o);
		unlink(o.path);
	}
	other_finish(&o);
}

static void nobody_is_asked_twice(void **state)
{
	struct other o;
	struct snap *s, *second;

	(void)state;
	other_start(&o, &anon);
	s = other_snap(&o);
	add_ram(s, &o);
	expect_ok(snap_prepare(s));
	second = other_snap(&o);
	add_ram(second, &o);
	assert_true(snap_prepare(second) < 0);
	assert_int_equal(snap_error_failure(), SNAP_FAILURE_REFUSED);
	snap_destroy(second);
	expect_ok(snap_begin(s));
	expect_ok(snap_wait(s, 60000));
	snap_destroy(s);
	check_image(&o);
	other_finish(&o);
}

#define CASE(...) (&(const struct other_case){__VA_ARGS__})
#define EXACT(c)                                                               \
	{                                                                      \
		"image_is_of_one_instant", image_is_of_one_instant, NULL,      \
			NULL, (void *)(c)                                      \
	}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		EXACT(CASE("anon", RAM_ANON, 64 * MB, 2, 0)),
		EXACT(CASE("anon 4 writers", RAM_ANON, 32 * MB, 4, 50)),
		EXACT(CASE("thp", RAM_THP, 64 * MB, 2, 0)),
		EXACT(CASE("memfd", RAM_MEMFD, 64 * MB, 2, 0)),
		EXACT(CASE("shared", RAM_SHARED, 32 * MB, 2, 20)),
		cmocka_unit_test(ram_is_found_by_itself),
		cmocka_unit_test(terabytes_of_holes_are_refused),
		cmocka_unit_test(process_that_is_killed_is_gone),
		cmocka_unit_test(process_that_calls_exec_is_gone),
		cmocka_unit_test(death_of_the_saving_process_frees_the_other),
		cmocka_unit_test(nobody_is_asked_twice),
	};

#ifdef __SANITIZE_THREAD__
	puts("skipped: the thread sanitizer has memory of its own in the "
	     "process that is saved");
	return 77;
#endif
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("other", tests, NULL, NULL);
}

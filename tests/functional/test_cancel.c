// SPDX-License-Identifier: MIT
/* Endings that are not the good one, at any moment: cancel and destroy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/scene.h"

#define MB ((size_t)1 << 20)
#define ROUNDS 100

static const struct scene_config quick[] = {
	{.name = "anon", .ram_len = 16 * MB, .threads = 2, .nap_us = 50},
	{.name = "thp",
	 .kind = RAM_THP,
	 .ram_len = 16 * MB,
	 .threads = 2,
	 .nap_us = 50},
	{.name = "memfd",
	 .kind = RAM_MEMFD,
	 .ram_len = 16 * MB,
	 .threads = 2,
	 .nap_us = 50},
	{.name = "zstd",
	 .ram_len = 16 * MB,
	 .threads = 2,
	 .nap_us = 50,
	 .options.compress = SNAP_COMPRESS_ZSTD},
};

/* The pool is full, writers hang, the sink crawls. */
static const struct scene_config stalled = {.name = "stalled",
					    .ram_len = 48 * MB,
					    .threads = 2,
					    .options.max_buffer = 16 * MB,
					    .options.bandwidth = 4 * MB};

static void random_nap(unsigned max_us)
{
	usleep((useconds_t)(random() % max_us));
}

/* One round: RAM and writers stay, so lost writes of any round show at the
 * end. */
static void cancel_once(struct scene *sc)
{
	struct scene_snap *ss = &sc->snaps[0];
	int err;

	scene_prepare(sc);
	scene_begin(sc);
	random_nap(20000);
	snap_cancel(ss->snap);
	err = snap_wait(ss->snap, 10000);
	if (err == 0)
		scene_finish(sc);
	else
		scene_finish_failed(sc, -ECANCELED, SNAP_FAILURE_CANCELLED);
}

static void cancel_at_random_moments(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	for (int i = 0; i < ROUNDS / 4; i++)
		cancel_once(&sc);
	scene_close(&sc);
}

static void cancel_releases_stalled_writers_at_once(void **state)
{
	struct mutator_counts before, after;
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	scene_nap_ms(200);
	snap_cancel(sc.snaps[0].snap);
	assert_int_equal(snap_wait(sc.snaps[0].snap, 3000), -ECANCELED);
	assert_int_equal(mutator_pause(sc.mutator, &before), 0);
	mutator_resume(sc.mutator);
	scene_nap_ms(50);
	assert_int_equal(mutator_pause(sc.mutator, &after), 0);
	mutator_resume(sc.mutator);
	assert_true(after.n[0] > before.n[0] && after.n[1] > before.n[1]);
	scene_finish_failed(&sc, -ECANCELED, SNAP_FAILURE_CANCELLED);
	scene_close(&sc);
}

static void guest_that_waits_too_long_is_released(void **state)
{
	struct scene_config cfg = stalled;
	struct scene sc;

	(void)state;
	cfg.options.fault_limit_ms = 100;
	scene_open(&sc, &cfg);
	scene_prepare(&sc);
	scene_begin(&sc);
	scene_finish_failed(&sc, -ETIMEDOUT, SNAP_FAILURE_INTERNAL);
	scene_close(&sc);
}

static void cancel_after_the_end_changes_nothing(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	assert_int_equal(snap_wait(sc.snaps[0].snap, 30000), 0);
	snap_cancel(sc.snaps[0].snap);
	assert_int_equal(snap_status(sc.snaps[0].snap), 0);
	scene_finish(&sc);
	scene_close(&sc);
}

static void cancel_before_begin_ends_it(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	snap_cancel(sc.snaps[0].snap);
	assert_int_equal(snap_begin(sc.snaps[0].snap), -ECANCELED);
	scene_finish_failed(&sc, -ECANCELED, SNAP_FAILURE_CANCELLED);
	scene_close(&sc);
}

static void check_nothing_left(struct scene *sc)
{
	struct proc_census now;
	struct proc_range range;

	assert_int_equal(scene_files(sc), 0);
	scene_nap_ms(5);
	proc_census(&now);
	assert_int_equal(now.userfaultfds, sc->before.userfaultfds);
	assert_int_equal(now.fds, sc->before.fds);
	assert_int_equal(now.threads, sc->before.threads);
	proc_range(sc->ram.addr, sc->ram.len, &range);
	assert_int_equal(range.uffd_mappings, 0);
}

static void destroy_while_it_runs(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	for (int i = 0; i < 20; i++) {
		scene_prepare(&sc);
		scene_begin(&sc);
		random_nap(8000);
		snap_destroy(sc.snaps[0].snap);
		unlink(sc.snaps[0].path); /* it may have been complete */
		check_nothing_left(&sc);
	}
	scene_close(&sc);
}

static void destroy_stalled(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	scene_nap_ms(100);
	snap_destroy(sc.snaps[0].snap);
	check_nothing_left(&sc);
	scene_close(&sc);
}

static void destroy_after_prepare(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	snap_destroy(sc.snaps[0].snap);
	check_nothing_left(&sc);
	scene_close(&sc);
}

static void destroy_of_null_is_fine(void **state)
{
	(void)state;
	snap_destroy(NULL);
	snap_image_close(NULL);
}

/* ---- a program's own loop ---- */

static void fd_tells_of_every_change(void **state)
{
	enum snap_state last = SNAP_STATE_RUNNING;
	struct scene sc;
	struct snap *s;
	int status;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	s = sc.snaps[0].snap;
	do {
		struct pollfd p = {.fd = snap_fd(s), .events = POLLIN};

		assert_int_equal(poll(&p, 1, 20000), 1);
		assert_int_equal(p.revents, POLLIN);
		status = snap_process(s);
		assert_true(snap_state(s) >= last);
		last = snap_state(s);
	} while (status == -EINPROGRESS);
	assert_int_equal(status, 0);
	assert_int_equal(last, SNAP_STATE_COMPLETE);
	scene_finish(&sc);
	scene_close(&sc);
}

static void wait_times_out(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	assert_int_equal(snap_status(sc.snaps[0].snap), -EINPROGRESS);
	assert_int_equal(snap_wait(sc.snaps[0].snap, 0), -EINPROGRESS);
	scene_begin(&sc);
	assert_int_equal(snap_wait(sc.snaps[0].snap, 10), -EINPROGRESS);
	snap_cancel(sc.snaps[0].snap);
	scene_finish_failed(&sc, -ECANCELED, SNAP_FAILURE_CANCELLED);
	scene_close(&sc);
}

/* ---- a stream whose reader is asleep or gone ---- */

static void begin_to_pipe(struct scene *sc, int ends[2])
{
	struct scene_snap *ss = &sc->snaps[0];
	struct snap_options opts = {.size = sizeof(opts)};
	struct snap_region r = {
		.size = sizeof(r), .addr = sc->ram.addr, .length = sc->ram.len};

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	opts.output_fd = ends[1];
	opts.max_buffer = 16 * MB;
	sc->snap_count = 1;
	*ss = (struct scene_snap){.region_count = 1, .fd = ends[1]};
	assert_int_equal(snap_create(&ss->snap, &opts), 0);
	assert_int_equal(snap_add_region(ss->snap, &r), 0);
	scene_begin(sc);
	scene_nap_ms(100);
}

static void cancel_with_a_reader_asleep(void **state)
{
	struct scene sc;
	int ends[2];

	scene_open(&sc, *state);
	begin_to_pipe(&sc, ends);
	assert_int_equal(snap_status(sc.snaps[0].snap), -EINPROGRESS);
	snap_cancel(sc.snaps[0].snap);
	assert_int_equal(snap_wait(sc.snaps[0].snap, 3000), -ECANCELED);
	close(ends[0]);
	scene_finish_failed(&sc, -ECANCELED, SNAP_FAILURE_CANCELLED);
	scene_close(&sc);
}

static void reader_that_goes_away_is_epipe(void **state)
{
	struct scene sc;
	int ends[2];

	scene_open(&sc, *state);
	begin_to_pipe(&sc, ends);
	close(ends[0]);
	scene_finish_failed(&sc, -EPIPE, SNAP_FAILURE_OUTPUT);
	scene_close(&sc);
}

#define ON(test, cfg)                                                          \
	{                                                                      \
#test "_" #cfg, test, NULL, NULL, (void *)&cfg                 \
	}

static const struct scene_config anon48 = {
	.name = "anon48", .ram_len = 48 * MB, .threads = 2, .nap_us = 50};
static const struct scene_config idle48 = {
	.name = "idle48", .kind = RAM_MEMFD, .ram_len = 48 * MB};

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(cancel_at_random_moments, quick[0]),
		ON(cancel_at_random_moments, quick[1]),
		ON(cancel_at_random_moments, quick[2]),
		ON(cancel_at_random_moments, quick[3]),
		ON(cancel_releases_stalled_writers_at_once, stalled),
		cmocka_unit_test(guest_that_waits_too_long_is_released),
		ON(cancel_after_the_end_changes_nothing, quick[0]),
		ON(cancel_before_begin_ends_it, quick[0]),
		ON(destroy_while_it_runs, quick[0]),
		ON(destroy_while_it_runs, quick[1]),
		ON(destroy_stalled, stalled),
		ON(destroy_after_prepare, quick[0]),
		cmocka_unit_test(destroy_of_null_is_fine),
		ON(fd_tells_of_every_change, quick[0]),
		ON(wait_times_out, stalled),
		ON(cancel_with_a_reader_asleep, anon48),
		ON(cancel_with_a_reader_asleep, idle48),
		ON(reader_that_goes_away_is_epipe, anon48),
	};

	srandom((unsigned)getpid());
	return scene_exit_code(cmocka_run_group_tests(tests, NULL, NULL));
}

// SPDX-License-Identifier: MIT
/*
 * kill -9 at random moments of a process that takes a snapshot: the image is
 * there and complete, or it is not there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/scene.h"

#define MB ((size_t)1 << 20)
#define ROUNDS 40

static int save(const struct ram *ram, const char *path, unsigned flags)
{
	struct snap_options opts = {.size = sizeof(opts),
				    .output = path,
				    .max_buffer = 16 * MB,
				    .flags = flags};
	struct snap_region r = {
		.size = sizeof(r), .addr = ram->addr, .length = ram->len};
	struct snap *s;
	int err = snap_create(&s, &opts);

	if (err)
		return err;
	err = snap_add_region(s, &r);
	if (!err)
		err = snap_begin(s);
	if (!err)
		err = snap_wait(s, -1);
	snap_destroy(s);
	return err;
}

static long microseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Returns how long the child lived; it is killed after @us, 0: never. */
static long run_child(struct scene *sc, const char *path, unsigned flags,
		      long us)
{
	long start = microseconds();
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(save(&sc->ram, path, flags) != 0);
	assert_true(pid > 0);
	if (us) {
		usleep((useconds_t)us);
		kill(pid, SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!us)
		assert_int_equal(status, 0);
	return microseconds() - start;
}

static void remove_all(const struct scene *sc)
{
	DIR *d = opendir(sc->dir);
	struct dirent *e;
	char path[SCENE_PATH_MAX * 2];

	assert_non_null(d);
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", sc->dir, e->d_name);
		if (e->d_name[0] != '.' || strlen(e->d_name) > 2)
			unlink(path);
	}
	closedir(d);
}

static void image_is_complete_or_absent(void **state)
{
	static const struct scene_config cfg = {.name = "kill",
						.ram_len = 16 * MB};
	unsigned flags = *(unsigned *)*state, complete = 0;
	char path[SCENE_PATH_MAX];
	struct scene sc;
	long us;

	scene_open(&sc, &cfg);
	snprintf(path, sizeof(path), "%s/x.snap", sc.dir);
	us = run_child(&sc, path, flags, 0);
	assert_int_equal(snap_image_verify(path), 0);
	remove_all(&sc);
	for (int i = 0; i < ROUNDS; i++) {
		run_child(&sc, path, flags, 1 + random() % (us + us / 4));
		if (access(path, F_OK) == 0) {
			complete++;
			assert_int_equal(snap_image_verify(path), 0);
		}
		remove_all(&sc);
	}
	print_message("%u of %d killed after the end\n", complete, ROUNDS);
	scene_close(&sc);
}

int main(void)
{
	static unsigned uring, plain = SNAP_NO_IO_URING;
	const struct CMUnitTest tests[] = {
		{"with_io_uring", image_is_complete_or_absent, NULL, NULL,
		 &uring},
		{"without_io_uring", image_is_complete_or_absent, NULL, NULL,
		 &plain},
	};

	srandom((unsigned)getpid());
	return scene_exit_code(
		cmocka_run_group_tests_name("kill", tests, NULL, NULL));
}

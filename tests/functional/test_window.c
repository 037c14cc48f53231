// SPDX-License-Identifier: MIT
/*
 * What a guest does while its snapshot is being saved, beside writing: it
 * discards, unmaps, moves, forks, reads files into its RAM.
 *
 * How it works.  A small pool in front of a slow sink keeps the window open
 * for about a second.  Writers work in the first part of the RAM; the rest is
 * the test's, and what it held at the snapshot point must be in the image.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/scene.h"

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)
#define HUGE (2 * MB)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define RAM_BYTES (48 * MB)
#define MINE (32 * MB) /* from here on the RAM is the test's */

#define WINDOW                                                                 \
	.ram_len = RAM_BYTES, .mutate_len = MINE, .threads = 2, .nap_us = 50,  \
	.options.max_buffer = 16 * MB, .options.bandwidth = 48 * MB

/* ---- discards ---- */

struct discard_case {
	struct scene_config scene;
	int advice;
	size_t step; /* bytes of one madvise() */
	unsigned threads;
	bool by_pidfd; /* process_madvise() of two ranges at once */
};

#define THP .kind = RAM_THP, .cut_huge_pages = RAM_BYTES / HUGE

static const struct discard_case discards[] = {
	{{.name = "dontneed_of_anon", WINDOW}, MADV_DONTNEED, 16 * KB, 1, 0},
	{{.name = "dontneed_of_pages", WINDOW}, MADV_DONTNEED, 4 * KB, 1, 0},
	{{.name = "dontneed_by_threads", WINDOW}, MADV_DONTNEED, 8 * KB, 4, 0},
	{{.name = "dontneed_by_pidfd", WINDOW}, MADV_DONTNEED, 64 * KB, 1, 1},
	{{.name = "free_of_anon", WINDOW}, MADV_FREE, 64 * KB, 1, 0},
	{{.name = "dontneed_of_thp", THP, WINDOW}, MADV_DONTNEED, HUGE, 2, 0},
	{{.name = "dontneed_in_thp", THP, WINDOW},
	 MADV_DONTNEED,
	 64 * KB,
	 2,
	 0},
	{{.name = "dontneed_of_memfd", .kind = RAM_MEMFD, WINDOW},
	 MADV_DONTNEED,
	 64 * KB,
	 2,
	 0},
	{{.name = "remove_of_memfd", .kind = RAM_MEMFD, WINDOW},
	 MADV_REMOVE,
	 64 * KB,
	 2,
	 0},
	{{.name = "dontneed_of_hugetlb", .kind = RAM_HUGETLB, WINDOW},
	 MADV_DONTNEED,
	 HUGE,
	 1,
	 0},
};

struct discarder {
	struct scene *sc;
	const struct discard_case *how;
	unsigned index;
	int pidfd;
	pthread_t thread;
	int err;
};

static long discard_one(struct discarder *d, uint8_t *p)
{
	const struct discard_case *c = d->how;
	struct iovec halves[2] = {{p, c->step / 2},
				  {p + c->step / 2, c->step / 2}};

	if (!c->by_pidfd)
		return madvise(p, c->step, c->advice);
	return syscall(SYS_process_madvise, d->pidfd, halves, 2, c->advice, 0);
}

/* What an allocator does: gives memory back, later writes to it anew. */
static void *discard_all(void *arg)
{
	struct discarder *d = arg;
	size_t step = d->how->step;

	for (size_t at = MINE + 2 * step * d->index; at < RAM_BYTES;
	     at += 2 * step * d->how->threads) {
		uint8_t *p = d->sc->ram.addr + at;

		if (discard_one(d, p) < 0)
			d->err = -errno;
		memset(p, 0x77, 64);
	}
	return NULL;
}

static void run_discarders(struct scene *sc, const struct discard_case *c,
			   int pidfd)
{
	struct discarder d[4];

	for (unsigned i = 0; i < c->threads; i++) {
		d[i] = (struct discarder){
			.sc = sc, .how = c, .index = i, .pidfd = pidfd};
		assert_int_equal(
			pthread_create(&d[i].thread, NULL, discard_all, &d[i]),
			0);
	}
	for (unsigned i = 0; i < c->threads; i++)
		pthread_join(d[i].thread, NULL);
	for (unsigned i = 0; i < c->threads; i++)
		assert_int_equal(d[i].err, 0);
}

/* Linux 6.13 let a process discard its own memory so. */
static int pidfd_that_may_discard(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	struct iovec none = {NULL, 0};

	if (fd < 0 ||
	    syscall(SYS_process_madvise, fd, &none, 1, MADV_DONTNEED, 0) < 0)
		scene_skip("no process_madvise(MADV_DONTNEED) here");
	return fd;
}

static void discard_is_let_go_on_after_a_save(void **state)
{
	const struct discard_case *c = *state;
	int pidfd = c->by_pidfd ? pidfd_that_may_discard() : -1;
	struct scene sc;

	scene_open(&sc, &c->scene);
	scene_prepare(&sc);
	scene_begin(&sc);
	run_discarders(&sc, c, pidfd);
	assert_int_equal(snap_state(sc.snaps[0].snap), SNAP_STATE_RUNNING);
	scene_finish(&sc);
	assert_true(sc.snaps[0].stats.discards > 0);
	scene_close(&sc);
	if (pidfd >= 0)
		close(pidfd);
}

/* ---- what cannot be saved ---- */

static const struct scene_config plain = {.name = "anon", WINDOW};
static const struct scene_config memfd = {
	.name = "memfd", .kind = RAM_MEMFD, WINDOW};
static const struct scene_config thp = {.name = "thp",
					.kind = RAM_THP,
					WINDOW,
					.cut_huge_pages = RAM_BYTES / HUGE};

/* Nobody else may find the hole: what he maps there would be overwritten. */
static void occupy(struct scene *sc, size_t at, size_t len)
{
	void *p = mmap(sc->ram.addr + at, len, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			       MAP_FIXED_NOREPLACE,
		       -1, 0);

	assert_ptr_equal(p, sc->ram.addr + at);
}

static void unmap(struct scene *sc, size_t at, size_t len)
{
	assert_int_equal(munmap(sc->ram.addr + at, len), 0);
	occupy(sc, at, len);
}

static void put_back(struct scene *sc, size_t at, size_t len)
{
	void *p = mmap(sc->ram.addr + at, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	assert_true(p != MAP_FAILED);
}

static void munmap_of_unsaved_pages_fails_the_snapshot(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	unmap(&sc, RAM_BYTES - 4 * MB, 4 * MB);
	scene_finish_failed(&sc, -ENODATA, SNAP_FAILURE_LOST);
	put_back(&sc, RAM_BYTES - 4 * MB, 4 * MB);
	scene_close(&sc);
}

static void mremap_of_unsaved_pages_fails_the_snapshot(void **state)
{
	const size_t at = RAM_BYTES - 4 * MB;
	struct scene sc;
	void *moved;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	moved = mmap(NULL, 4 * MB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	assert_true(moved != MAP_FAILED);
	assert_ptr_equal(mremap(sc.ram.addr + at, 4 * MB, 4 * MB,
				MREMAP_MAYMOVE | MREMAP_FIXED, moved),
			 moved);
	occupy(&sc, at, 4 * MB);
	memset(moved, 0x11, 4 * MB); /* nobody may hang in there */
	scene_finish_failed(&sc, -ENODATA, SNAP_FAILURE_LOST);
	munmap(moved, 4 * MB);
	put_back(&sc, at, 4 * MB);
	scene_close(&sc);
}

static void replacing_a_mapping_fails_the_snapshot(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	put_back(&sc, RAM_BYTES - 4 * MB, 4 * MB);
	scene_finish_failed(&sc, -ENODATA, SNAP_FAILURE_LOST);
	scene_close(&sc);
}

static void unmapping_between_prepare_and_begin_is_noticed(void **state)
{
	struct mutator_counts at;
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	assert_int_equal(mutator_pause(sc.mutator, &at), 0);
	assert_int_equal(munmap(sc.ram.addr + RAM_BYTES - 4 * MB, 4 * MB), 0);
	assert_int_equal(snap_begin(sc.snaps[0].snap), -EFAULT);
	mutator_resume(sc.mutator);
	put_back(&sc, RAM_BYTES - 4 * MB, 4 * MB);
	scene_finish_failed(&sc, -EFAULT, SNAP_FAILURE_REFUSED);
	scene_close(&sc);
}

static void unmapping_outside_the_region_is_harmless(void **state)
{
	struct scene_config cfg = *(const struct scene_config *)*state;
	struct scene sc;

	cfg.regions = 1;
	cfg.region_len = 40 * MB;
	scene_open(&sc, &cfg);
	scene_prepare(&sc);
	scene_begin(&sc);
	unmap(&sc, 44 * MB, 4 * MB);
	scene_finish(&sc);
	put_back(&sc, 44 * MB, 4 * MB);
	scene_close(&sc);
}

/* ---- what is harmless ---- */

/* The child writes all over its copy. */
static void fork_once(struct scene *sc)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		for (size_t at = 0; at < RAM_BYTES; at += 4096)
			*(volatile uint64_t *)(void *)(sc->ram.addr + at) = 1;
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void fork_is_harmless(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	for (int i = 0; i < 4; i++)
		fork_once(&sc);
	scene_finish(&sc);
	scene_close(&sc);
}

static void fork_before_the_snapshot_is_harmless(void **state)
{
	struct scene sc;
	int gate[2];
	pid_t pid;

	scene_open(&sc, *state);
	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		char c;

		close(gate[1]);
		_exit(read(gate[0], &c, 1) != 0);
	}
	sc.before.fds += 2;
	scene_prepare(&sc);
	scene_begin(&sc);
	scene_finish(&sc);
	close(gate[1]);
	waitpid(pid, NULL, 0);
	close(gate[0]);
	scene_close(&sc);
}

struct reader {
	struct scene *sc;
	int fd;
	ssize_t got;
};

static void *read_into_ram(void *arg)
{
	struct reader *r = arg;

	r->got = pread(r->fd, r->sc->ram.addr + MINE, 8 * MB, 0);
	return NULL;
}

static int file_of_bytes(const uint8_t *bytes, size_t len)
{
	int fd = memfd_create("input", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	return fd;
}

/* The kernel itself meets the write protection there. */
static void read_into_protected_memory_works(void **state)
{
	uint8_t *bytes = malloc(8 * MB);
	struct reader r = {0};
	pthread_t thread;
	struct scene sc;

	assert_non_null(bytes);
	memset(bytes, 0xa5, 8 * MB);
	r.fd = file_of_bytes(bytes, 8 * MB);
	r.sc = &sc;
	scene_open(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	assert_int_equal(pthread_create(&thread, NULL, read_into_ram, &r), 0);
	pthread_join(thread, NULL);
	assert_int_equal(r.got, 8 * MB);
	scene_finish(&sc);
	assert_memory_equal(sc.ram.addr + MINE, bytes, 8 * MB);
	scene_close(&sc);
	close(r.fd);
	free(bytes);
}

static void mprotect_is_harmless(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	for (size_t at = MINE; at < RAM_BYTES; at += MB) {
		uint8_t *p = sc.ram.addr + at;

		assert_int_equal(mprotect(p, 64 * KB, PROT_READ), 0);
		assert_int_equal(mprotect(p, 64 * KB, PROT_READ | PROT_WRITE),
				 0);
		memset(p, 0x33, 64 * KB);
	}
	scene_finish(&sc);
	scene_close(&sc);
}

/* Somebody else's mappings come and go all the time: -EAGAIN is not final. */
static void mappings_may_change_beside_it(void **state)
{
	struct scene sc;

	scene_open(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	while (snap_state(sc.snaps[0].snap) == SNAP_STATE_RUNNING) {
		void *p = mmap(NULL, MB, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_true(p != MAP_FAILED);
		memset(p, 1, MB);
		munmap(p, MB);
	}
	scene_finish(&sc);
	scene_close(&sc);
}

#define ON(test, cfg)                                                          \
	{                                                                      \
#test "_" #cfg, test, NULL, NULL, (void *)&cfg                 \
	}

static const struct CMUnitTest events[] = {
	ON(munmap_of_unsaved_pages_fails_the_snapshot, plain),
	ON(munmap_of_unsaved_pages_fails_the_snapshot, memfd),
	ON(munmap_of_unsaved_pages_fails_the_snapshot, thp),
	ON(mremap_of_unsaved_pages_fails_the_snapshot, plain),
	ON(mremap_of_unsaved_pages_fails_the_snapshot, memfd),
	ON(replacing_a_mapping_fails_the_snapshot, plain),
	ON(unmapping_between_prepare_and_begin_is_noticed, plain),
	ON(unmapping_outside_the_region_is_harmless, plain),
	ON(fork_is_harmless, plain),
	ON(fork_is_harmless, thp),
	ON(fork_before_the_snapshot_is_harmless, plain),
	ON(fork_before_the_snapshot_is_harmless, thp),
	ON(read_into_protected_memory_works, plain),
	ON(read_into_protected_memory_works, memfd),
	ON(read_into_protected_memory_works, thp),
	ON(mprotect_is_harmless, plain),
	ON(mprotect_is_harmless, memfd),
	ON(mappings_may_change_beside_it, plain),
};

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[COUNT(discards) + COUNT(events)];
	size_t n = 0;

	for (size_t i = 0; i < COUNT(discards); i++)
		tests[n++] = (struct CMUnitTest){
			.name = discards[i].scene.name,
			.test_func = discard_is_let_go_on_after_a_save,
			.initial_state = (void *)&discards[i]};
	memcpy(&tests[n], events, sizeof(events));
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	if (argc > 2)
		cmocka_set_skip_filter(argv[2]);
	return scene_exit_code(
		cmocka_run_group_tests_name("window", tests, NULL, NULL));
}

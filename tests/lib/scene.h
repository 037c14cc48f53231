/* SPDX-License-Identifier: MIT */
/*
 * One exactness experiment: guest RAM, writers, snapshots, and the checks.
 *
 * How it works.  scene_open() makes and fills the RAM and starts the writers.
 * scene_begin() stops them at the gate, notes how far each is, begins the
 * snapshots and lets them go.  The memory at that instant is found by replay
 * in a model, so scene_finish() can compare every image byte for byte, and
 * scene_close() the live memory with the replay to the very end: a write that
 * was lost shows there.  All checks are cmocka asserts of the main thread.
 */
#ifndef TEST_SCENE_H
#define TEST_SCENE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libsnap.h"
#include "mutator.h"
#include "proc.h"
#include "ram.h"

/* The thread sanitizer keeps four bytes a byte that it sees touched. */
#ifdef __SANITIZE_THREAD__
#define SCENE_SLOW 1
#define SCENE_UNCHECKED __attribute__((noinline, no_sanitize("thread")))
#else
#define SCENE_SLOW 0
#define SCENE_UNCHECKED
#endif

#define SCENE_SNAPS_MAX 2
#define SCENE_PATH_MAX 256

enum scene_fill {
	FILL_ALL,  /* every page, one in eight with zeros */
	FILL_HUGE, /* blocks of 2 MiB, every other one by chance */
	FILL_HALF, /* blocks of 64 KiB, every other one by chance */
	FILL_FEW,  /* about one page of 64 */
	FILL_NONE,
};

enum scene_sink { SINK_FILE, SINK_PIPE, SINK_FD_FILE, SINK_NULL };

struct scene;

/** All zero is: 32 MiB of anonymous memory in one region, nobody writes. */
struct scene_config {
	const char *name;
	enum ram_kind kind;
	size_t ram_len; /* 0: 32 MiB */
	enum scene_fill fill;
	/** Write-protect state aside, something to do to the mapping. */
	void (*dress)(struct scene *sc);

	unsigned threads;
	enum mutator_pattern pattern;
	unsigned nap_us;
	bool prearm;	   /* protect beforehand, while they write */
	bool asleep;	   /* the first step comes after the snapshot point */
	size_t mutate_len; /* from the RAM's start; 0: all of it */

	/** Regions: @regions of @region_len bytes, @region_stride apart, from
	 * @region_offset.  All 0: one region, the whole RAM. */
	unsigned regions;
	size_t region_offset, region_len, region_stride;

	unsigned at_once; /* snapshots that begin together; 0: 1 */
	unsigned rounds;  /* snapshots one after another; 0: 1 */
	enum scene_sink sink;
	struct snap_options options; /* output is filled in */

	bool expect_pool_waits;
	/** Huge pages that the region's ends cut: they may be split. */
	unsigned cut_huge_pages;
};

struct scene_snap {
	struct snap *snap;
	char path[SCENE_PATH_MAX];
	unsigned first_region, region_count;
	uint64_t absent; /* pages, counted at the snapshot point */
	struct snap_stats stats;
	int fd;
	int pipe_in;
	pthread_t reader;
};

struct scene {
	const struct scene_config *cfg;
	struct ram ram;
	struct mutator *mutator;
	struct mutator_config writers;
	struct mutator_counts at; /* the snapshot point */
	struct mutator_counts modelled;
	uint8_t *model; /* the RAM as replayed to @modelled */
	struct proc_census before;
	struct proc_range range_before;
	char dir[SCENE_PATH_MAX / 2];
	unsigned snap_count;
	struct scene_snap snaps[SCENE_SNAPS_MAX];
};

/** Skips the test when this machine cannot have such memory. */
void scene_open(struct scene *sc, const struct scene_config *cfg);

/** Create, add regions, prepare. */
void scene_prepare(struct scene *sc);

/** The snapshot point; the writers run on when this returns. */
void scene_begin(struct scene *sc);

/** Wait for the snapshots, which must succeed, and check everything of them;
 * their handles are destroyed. */
void scene_finish(struct scene *sc);

/** Wait for the only snapshot, which must end with @status; its handle is
 * destroyed and no file may be left. */
void scene_finish_failed(struct scene *sc, int status,
			 enum snap_failure failure);

/** Stop the writers and compare the live RAM, then check that nothing of the
 * snapshot is left in this process, and free. */
void scene_close(struct scene *sc);

/** All of the above, @cfg->rounds times. */
void scene_play(const struct scene_config *cfg);

/** Whether @len bytes from the RAM's @offset are as modelled; complains. */
bool scene_same(struct scene *sc, const char *what, size_t offset,
		const uint8_t *got, size_t len);

void scene_nap_ms(long ms);

/** Bring the model to the snapshot point / to @to. */
void scene_model_to(struct scene *sc, const struct mutator_counts *to);

/** Where region @i of the scene is. */
void scene_region_bounds(const struct scene *sc, unsigned i, size_t *offset,
			 size_t *len);

/** Fails the test with the library's text when @err is not 0. */
void scene_must(int err, const char *what);

/** The figures of a complete snapshot; the model is at its instant. */
void scene_check_stats(struct scene *sc, const struct scene_snap *ss);

/** The whole image file against the model. */
void scene_check_image(struct scene *sc, const struct scene_snap *ss);

/** Files in the scene's directory. */
unsigned scene_files(const struct scene *sc);

/*
 * Skipping: the reason is printed, and a program all of whose tests were
 * skipped ends with 77.
 */
void scene_skip(const char *reason);

/** What main() returns for cmocka's @failures. */
int scene_exit_code(int failures);

#endif

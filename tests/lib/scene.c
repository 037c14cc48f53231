// SPDX-License-Identifier: MIT
/* One exactness experiment: guest RAM, writers, snapshots, and the checks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scene.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define HUGE ((size_t)2 << 20)
#define WAIT_MS 60000

static unsigned played, skipped;

void scene_skip(const char *reason)
{
	skipped++;
	print_message("skipped: %s\n", reason);
	skip();
}

int scene_exit_code(int failures)
{
	if (failures)
		return 1;
	return skipped && skipped == played ? 77 : 0;
}

void scene_nap_ms(long ms)
{
	struct timespec t = {.tv_sec = ms / 1000,
			     .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

/* ---- the RAM and its model ---- */

static uint64_t hash(uint64_t x)
{
	x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
	return x ^ (x >> 32);
}

static bool fill_page(enum scene_fill fill, size_t page)
{
	switch (fill) {
	case FILL_ALL:
		return true;
	case FILL_HUGE:
		return hash(page / 512) & 1;
	case FILL_HALF:
		return hash(page / 16) & 1;
	case FILL_FEW:
		return hash(page) % 64 == 0;
	default:
		return false;
	}
}

/* Compressible, and one page in eight is present but zero. */
SCENE_UNCHECKED static void write_page(uint64_t *words, size_t page)
{
	uint64_t h = hash(page ^ 0x5151);
	bool zero = h % 8 == 0;

	for (unsigned i = 0; i < PAGE / 8; i++)
		words[i] = zero ? 0 : h + (i & 7);
}

SCENE_UNCHECKED static void fill_memory(const struct scene_config *cfg,
					uint8_t *base, size_t len)
{
	for (size_t page = 0; page < len / PAGE; page++)
		if (fill_page(cfg->fill, page))
			write_page((uint64_t *)(void *)(base + page * PAGE),
				   page);
}

static uint8_t *make_model(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

void scene_model_to(struct scene *sc, const struct mutator_counts *to)
{
	mutator_replay(&sc->writers, sc->model, &sc->modelled, to);
	sc->modelled = *to;
}

/* ---- making ---- */

/* Fragmented memory gives none, and then there is nothing to test. */
static void need_huge_pages(struct scene *sc)
{
	struct proc_range range;

	proc_range(sc->ram.addr, sc->ram.len, &range);
	if (range.anon_huge_bytes || sc->cfg->fill == FILL_NONE)
		return;
	rmdir(sc->dir);
	munmap(sc->model, sc->ram.len);
	ram_free(&sc->ram);
	scene_skip("the kernel gave no transparent huge page");
}

static void *do_nothing(void *arg)
{
	return arg;
}

/* A sanitizer starts a thread of its own with the first of ours. */
static void settle_threads(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, do_nothing, NULL) == 0)
		pthread_join(thread, NULL);
	scene_nap_ms(1);
}

void scene_open(struct scene *sc, const struct scene_config *cfg)
{
	size_t len = cfg->ram_len ? cfg->ram_len : (size_t)32 << 20;
	const char *tmp = getenv("TMPDIR");
	int err;

	memset(sc, 0, sizeof(*sc));
	played++;
	sc->cfg = cfg;
	err = ram_make(&sc->ram, cfg->kind, len);
	if (err == -ENOTSUP)
		scene_skip(ram_why());
	assert_int_equal(err, 0);
	snprintf(sc->dir, sizeof(sc->dir), "%s/snap-test-XXXXXX",
		 tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(sc->dir));
	fill_memory(cfg, sc->ram.addr, len);
	sc->model = make_model(len);
	fill_memory(cfg, sc->model, len);
	if (cfg->kind == RAM_THP)
		need_huge_pages(sc);
	if (cfg->dress)
		cfg->dress(sc);
	sc->writers = (struct mutator_config){
		.addr = sc->ram.addr,
		.len = cfg->mutate_len ? cfg->mutate_len : len,
		.threads = cfg->threads,
		.pattern = cfg->pattern,
		.seed = 42,
		.nap_us = cfg->nap_us ? cfg->nap_us : SCENE_SLOW,
		.closed = cfg->asleep,
	};
	settle_threads();
	proc_census(&sc->before);
	assert_int_equal(mutator_start(&sc->mutator, &sc->writers), 0);
	sc->before.threads += cfg->threads;
	if (cfg->threads)
		scene_nap_ms(5);
}

static void *drain_pipe(void *arg)
{
	struct scene_snap *ss = arg;
	int out = open(ss->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	static char buf[1 << 16];
	ssize_t n;

	while ((n = read(ss->pipe_in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			break;
	close(out);
	return NULL;
}

static void open_sink(struct scene *sc, struct scene_snap *ss,
		      struct snap_options *opts)
{
	int ends[2];

	ss->fd = -1;
	switch (sc->cfg->sink) {
	case SINK_FILE:
		opts->output = ss->path;
		break;
	case SINK_PIPE:
		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		ss->pipe_in = ends[0];
		ss->fd = ends[1];
		assert_int_equal(
			pthread_create(&ss->reader, NULL, drain_pipe, ss), 0);
		break;
	case SINK_FD_FILE:
		ss->fd = open(ss->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
			      0600);
		assert_true(ss->fd >= 0);
		break;
	case SINK_NULL:
		return;
	}
	if (ss->fd >= 0)
		opts->output_fd = ss->fd;
}

void scene_region_bounds(const struct scene *sc, unsigned i, size_t *offset,
			 size_t *len)
{
	const struct scene_config *c = sc->cfg;

	*offset = c->region_offset + i * c->region_stride;
	*len = c->region_len ? c->region_len : sc->ram.len;
}

/* The regions are dealt to the snapshots in runs. */
static void add_regions(struct scene *sc, struct scene_snap *ss, unsigned i)
{
	unsigned regions = sc->cfg->regions ? sc->cfg->regions : 1;

	ss->first_region = i * regions / sc->snap_count;
	ss->region_count =
		(i + 1) * regions / sc->snap_count - ss->first_region;
	for (unsigned k = 0; k < ss->region_count; k++) {
		struct snap_region r = {.size = sizeof(r)};
		size_t offset;

		scene_region_bounds(sc, ss->first_region + k, &offset,
				    &r.length);
		r.addr = sc->ram.addr + offset;
		r.guest_addr = offset;
		assert_int_equal(snap_add_region(ss->snap, &r), 0);
	}
}

void scene_must(int err, const char *what)
{
	if (err)
		fail_msg("%s: %d %s", what, err, snap_error_message());
}

void scene_prepare(struct scene *sc)
{
	static unsigned serial;

	sc->snap_count = sc->cfg->at_once ? sc->cfg->at_once : 1;
	for (unsigned i = 0; i < sc->snap_count; i++) {
		struct scene_snap *ss = &sc->snaps[i];
		struct snap_options opts = sc->cfg->options;

		*ss = (struct scene_snap){0};
		snprintf(ss->path, sizeof(ss->path), "%s/image%u.snap", sc->dir,
			 serial++);
		opts.size = sizeof(opts);
		if (SCENE_SLOW && !opts.max_buffer)
			opts.max_buffer = (size_t)16 << 20;
		open_sink(sc, ss, &opts);
		scene_must(snap_create(&ss->snap, &opts), "snap_create");
		add_regions(sc, ss, i);
		scene_must(snap_prepare(ss->snap), "snap_prepare");
	}
}

static uint64_t count_absent(struct scene *sc, const struct scene_snap *ss)
{
	uint64_t absent = 0;

	for (unsigned k = 0; k < ss->region_count; k++) {
		size_t offset, len;

		scene_region_bounds(sc, ss->first_region + k, &offset, &len);
		absent += ram_absent_pages(&sc->ram, offset, len);
	}
	return absent;
}

static void pause_writers(struct scene *sc, struct mutator_counts *at)
{
	if (mutator_pause(sc->mutator, at)) {
		print_error("a writer hangs in a fault\n");
		abort();
	}
}

void scene_begin(struct scene *sc)
{
	for (unsigned i = 0; i < sc->snap_count && sc->cfg->prearm; i++)
		scene_must(snap_prearm(sc->snaps[i].snap), "snap_prearm");
	pause_writers(sc, &sc->at);
	proc_range(sc->ram.addr, sc->ram.len, &sc->range_before);
	for (unsigned i = 0; i < sc->snap_count; i++)
		sc->snaps[i].absent = count_absent(sc, &sc->snaps[i]);
	for (unsigned i = 0; i < sc->snap_count; i++)
		scene_must(snap_begin(sc->snaps[i].snap), "snap_begin");
	mutator_resume(sc->mutator);
}

static int wait_for(struct scene_snap *ss)
{
	int err = snap_wait(ss->snap, WAIT_MS);

	if (err == -EINPROGRESS) {
		char *json = snap_stats_json(ss->snap);

		print_error("the snapshot does not end: state %d %s\n",
			    snap_state(ss->snap), json ? json : "");
		abort();
	}
	return err;
}

/* The handle goes, its memory must be free of marks from then on. */
static void end_snap(struct scene_snap *ss)
{
	snap_destroy(ss->snap);
	ss->snap = NULL;
	if (ss->fd >= 0)
		close(ss->fd);
	if (ss->pipe_in) {
		pthread_join(ss->reader, NULL);
		close(ss->pipe_in);
	}
}

static void check_released(struct scene *sc)
{
	struct proc_census now;
	struct proc_range range;

	proc_census(&now);
	/* A joined thread leaves /proc a moment after pthread_join(). */
	for (int i = 0; i < 2500 && now.threads > sc->before.threads; i++) {
		scene_nap_ms(2);
		proc_census(&now);
	}
	assert_int_equal(now.threads, sc->before.threads);
	assert_int_equal(now.userfaultfds, sc->before.userfaultfds);
	assert_int_equal(now.fds, sc->before.fds);
	proc_range(sc->ram.addr, sc->ram.len, &range);
	assert_int_equal(range.uffd_mappings, 0);
	if (sc->cfg->kind == RAM_THP)
		assert_true(range.anon_huge_bytes +
				    sc->cfg->cut_huge_pages * HUGE >=
			    sc->range_before.anon_huge_bytes);
}

void scene_finish(struct scene *sc)
{
	for (unsigned i = 0; i < sc->snap_count; i++) {
		struct scene_snap *ss = &sc->snaps[i];
		int err = wait_for(ss);

		if (err)
			fail_msg("snapshot: %d %s", err, snap_error_message());
		assert_int_equal(snap_state(ss->snap), SNAP_STATE_COMPLETE);
		ss->stats.size = sizeof(ss->stats);
		assert_int_equal(snap_get_stats(ss->snap, &ss->stats), 0);
		end_snap(ss);
	}
	check_released(sc);
	scene_model_to(sc, &sc->at);
	for (unsigned i = 0; i < sc->snap_count; i++) {
		struct scene_snap *ss = &sc->snaps[i];

		scene_check_stats(sc, ss);
		if (!sc->cfg->threads)
			assert_int_equal(count_absent(sc, ss), ss->absent);
		if (sc->cfg->sink != SINK_NULL) {
			scene_check_image(sc, ss);
			unlink(ss->path);
		}
	}
	assert_int_equal(scene_files(sc), 0);
}

void scene_finish_failed(struct scene *sc, int status,
			 enum snap_failure failure)
{
	struct scene_snap *ss = &sc->snaps[0];
	int err = wait_for(ss);

	if (err != status)
		fail_msg("ended with %d (%s), not %d", err,
			 snap_error_message(), status);
	assert_int_equal(snap_error_failure(), failure);
	assert_true(snap_error_message()[0] != '\0');
	assert_int_equal(snap_state(ss->snap), status == -ECANCELED
						       ? SNAP_STATE_CANCELLED
						       : SNAP_STATE_FAILED);
	end_snap(ss);
	check_released(sc);
	assert_int_equal(scene_files(sc), 0);
}

unsigned scene_files(const struct scene *sc)
{
	DIR *d = opendir(sc->dir);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
	if (d)
		closedir(d);
	return n;
}

SCENE_UNCHECKED static void touch_every_page(struct scene *sc)
{
	for (size_t at = 0; at < sc->ram.len; at += PAGE) {
		volatile uint8_t *p = sc->ram.addr + at;

		*p = *p;
	}
}

void scene_close(struct scene *sc)
{
	struct mutator_counts end;
	size_t len = sc->ram.len;

	if (mutator_stop(sc->mutator, &end)) {
		print_error("a writer hangs in a fault\n");
		abort();
	}
	scene_model_to(sc, &end);
	if (sc->writers.len)
		len = sc->writers.len;
	assert_true(scene_same(sc, "live RAM", 0, sc->ram.addr, len));
	touch_every_page(sc);
	munmap(sc->model, sc->ram.len);
	ram_free(&sc->ram);
	assert_int_equal(rmdir(sc->dir), 0);
}

void scene_play(const struct scene_config *cfg)
{
	struct scene sc;

	scene_open(&sc, cfg);
	for (unsigned i = 0; i < (cfg->rounds ? cfg->rounds : 1); i++) {
		scene_prepare(&sc);
		scene_begin(&sc);
		scene_finish(&sc);
	}
	scene_close(&sc);
}

// SPDX-License-Identifier: MIT
/*
 * bench/engine: what a snapshot costs, beside what it would cost at least.
 *
 * How it works.  For each backing the RAM is made once and filled with the
 * bytes of installed programs, then the rounds go over all loads: a snapshot
 * to nowhere, one to a file, the plain O_DIRECT writer, memcpy, and the bare
 * copy-unprotect-wake loop, one after another, so that noise of the machine
 * meets them all alike.  Figures are medians of the rounds, latencies come
 * from all rounds together.
 */
#include "load.h"
#include "peers.h"
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
	const char *dir;
	bool json;
	unsigned only_backing; /* a bit each */
};

/* ---- realistic bytes ---- */

static size_t read_file(const char *path, uint8_t *to, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t got = 0;
	ssize_t n = 1;

	while (fd >= 0 && got < room && n > 0) {
		n = read(fd, to + got, room - got);
		if (n > 0)
			got += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	return got;
}

/* Programs and libraries, as in the page cache of a guest; again and again
 * when there are not enough of them. */
static void fill_realistic(const struct ram *ram)
{
	char *roots[] = {"/usr/bin", "/usr/lib", NULL};
	size_t at = 0, before;

	do {
		FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
		FTSENT *e;

		before = at;
		while (tree && at < ram->len && (e = fts_read(tree)))
			if (e->fts_info == FTS_F)
				at += read_file(e->fts_path, ram->addr + at,
						ram->len - at);
		if (tree)
			fts_close(tree);
	} while (at < ram->len && at > before);
	if (at < ram->len)
		die("nothing to fill the RAM with in /usr");
}

/* ---- one snapshot ---- */

struct shot {
	const char *path; /* NULL: to nowhere */
	enum snap_compress compress;
	struct snap_stats st;
	uint64_t peak; /* bytes of memory beyond what was used before */
};

static uint64_t used_bytes(const char *field)
{
	return proc_status_bytes(field) + proc_status_bytes("VmPTE");
}

/* The load is at its gate while the snapshot begins, as a paused guest. */
static void take(struct shot *shot, const struct ram *ram, struct load *load)
{
	struct snap_options opts = {.size = sizeof(opts),
				    .output = shot->path,
				    .compress = shot->compress,
				    .flags = SNAP_OVERWRITE};
	struct snap_region region = {
		.size = sizeof(region), .addr = ram->addr, .length = ram->len};
	uint64_t before, after;
	struct snap *s;

	proc_reset_peak();
	before = used_bytes("VmRSS");
	if (snap_create(&s, &opts) || snap_add_region(s, &region) ||
	    snap_prepare(s) || snap_begin(s))
		die("%s", snap_error_message());
	load_go(load);
	if (snap_wait(s, -1))
		die("%s", snap_error_message());
	load_stop(load);
	after = used_bytes("VmHWM");
	shot->peak = after > before ? after - before : 0;
	shot->st.size = sizeof(shot->st);
	snap_get_stats(s, &shot->st);
	snap_destroy(s);
}

static double seconds_of(const struct snap_stats *st)
{
	return (double)st->duration_ns * 1e-9;
}

static void note_counts(struct results *r, struct cell *c,
			const struct shot *shot)
{
	series_add(&c->ioctls, (double)shot->st.unprotect_ioctls);
	series_add(&c->syscalls_per_mib,
		   (double)shot->st.syscalls / (double)(r->mem / MIB));
	series_add(&c->faults, (double)shot->st.faults);
	series_add(&c->by_fault, (double)shot->st.pages_by_fault);
	series_add(&c->pool_waits, (double)shot->st.pool_wait_faults);
	series_add(&c->peak, (double)shot->peak);
}

static void measure_null(struct results *r, struct cell *c,
			 const struct ram *ram)
{
	struct shot shot = {0};
	struct proc_range before, after;
	struct samples *probe = c->load == LOAD_IDLE ? NULL : &c->writer;

	proc_range(ram->addr, ram->len, &before);
	take(&shot, ram, load_start(c->load, ram, probe));
	proc_range(ram->addr, ram->len, &after);
	if (after.anon_huge_bytes < before.anon_huge_bytes)
		c->huge_pages_lost = true;
	series_add(&c->null_rate,
		   (double)(r->mem / MIB) / seconds_of(&shot.st));
	series_add(&c->pause_us, (double)shot.st.pause_ns / 1e3);
	note_counts(r, c, &shot);
}

static void measure_file(struct results *r, struct cell *c,
			 const struct ram *ram, const char *dir)
{
	struct shot shot = {0};
	char path[512];

	snprintf(path, sizeof(path), "%s/engine-image.tmp", dir);
	shot.path = path;
	take(&shot, ram, load_start(c->load, ram, NULL));
	unlink(path);
	series_add(&c->file_rate,
		   (double)shot.st.bytes_written / MIB / seconds_of(&shot.st));
	series_add(&c->file_pause_us, (double)shot.st.pause_ns / 1e3);
	series_add(&c->direct_rate,
		   peer_direct(dir, ram, shot.st.bytes_written));
	(void)r;
}

static void measure_zstd(struct results *r, const struct ram *ram)
{
	struct shot shot = {.compress = SNAP_COMPRESS_ZSTD};
	double cli = peer_zstd(ram);

	take(&shot, ram, load_start(LOAD_IDLE, ram, NULL));
	series_add(&r->zstd_rate,
		   (double)(r->mem / MIB) / seconds_of(&shot.st));
	if (cli > 0)
		series_add(&r->cli_rate, cli);
	r->zstd_ratio =
		(double)shot.st.bytes_ram / (double)shot.st.bytes_written;
}

static void measure_copies(struct backing *b, const struct ram *ram,
			   uint8_t *to)
{
	series_add(&b->copy_rate, peer_memcpy(ram, to, ram->len));
	series_add(&b->ring_rate, peer_memcpy(ram, to, 64 * MIB));
	series_add(&b->walk_rate, peer_walks(ram));
}

/* ---- rounds ---- */

static void measure_round(struct results *r, struct backing *b,
			  const struct ram *ram, const struct settings *set)
{
	uint8_t *to = peer_buffer(ram->len);

	measure_copies(b, ram, to);
	for (unsigned i = 0; i < LOAD_KINDS; i++) {
		struct cell *c = &b->cells[i];
		double bare_s = (double)r->mem / GIB * 0.3;

		measure_null(r, c, ram);
		if (!r->quick)
			measure_file(r, c, ram, set->dir);
		if (r->quick)
			continue;
		peer_bare(ram, c->load, bare_s,
			  c->load == LOAD_IDLE ? &b->bare_quiet : &c->bare);
	}
	measure_copies(b, ram, to);
	peer_buffer_free(to, ram->len);
	if (b->kind == RAM_ANON && !r->quick)
		measure_zstd(r, ram);
}

static void measure_backing(struct results *r, struct backing *b,
			    const struct settings *set)
{
	struct ram ram;
	int err = ram_make(&ram, b->kind, r->mem);

	if (err) {
		b->absent = true;
		return;
	}
	for (unsigned i = 0; i < LOAD_KINDS; i++) {
		b->cells[i].backing = b->kind;
		b->cells[i].load = (enum load_kind)i;
	}
	for (unsigned i = 0; i < r->rounds; i++) {
		/* Writers have spoilt it, and zstd would tell. */
		fill_realistic(&ram);
		measure_round(r, b, &ram, set);
	}
	ram_free(&ram);
}

/* ---- command line ---- */

static size_t parse_size(const char *text)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 0);

	switch (*end) {
	case 'G':
	case 'g':
		n <<= 10;
		/* fall through */
	case 'M':
	case 'm':
		n <<= 20;
		end++;
	}
	if (*end || n < 64 * MIB || n % BLOCK)
		die("--mem %s: 64M or more, a multiple of 2M", text);
	return n;
}

static void usage(void)
{
	puts("engine [--mem SIZE] [--rounds N] [--quick] [--json] [--dir DIR]\n"
	     "       [--backing anon,thp,memfd]\n"
	     "What a snapshot costs beside memcpy, a plain O_DIRECT writer, "
	     "the\n"
	     "bare copy-unprotect-wake loop and the zstd command.\n"
	     "  --mem      RAM of the guest's stand-in (1G)\n"
	     "  --rounds   rounds of every figure (5)\n"
	     "  --dir      where images are written (the working directory)\n"
	     "  --quick    128M, one round, counts alone; status 1 when one "
	     "of\n"
	     "             them misses its target");
}

static unsigned parse_backings(const char *text)
{
	unsigned bits = 0;

	bits |= strstr(text, "anon") ? 1u << RAM_ANON : 0;
	bits |= strstr(text, "thp") ? 1u << RAM_THP : 0;
	bits |= strstr(text, "memfd") ? 1u << RAM_MEMFD : 0;
	if (!bits)
		die("--backing %s: some of anon,thp,memfd", text);
	return bits;
}

static void parse(int argc, char **argv, struct results *r,
		  struct settings *set)
{
	static const struct option options[] = {
		{"mem", 1, NULL, 'm'},	 {"rounds", 1, NULL, 'r'},
		{"quick", 0, NULL, 'q'}, {"json", 0, NULL, 'j'},
		{"dir", 1, NULL, 'd'},	 {"backing", 1, NULL, 'b'},
		{"help", 0, NULL, 'h'},	 {0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'm')
			r->mem = parse_size(optarg);
		else if (c == 'r')
			r->rounds = (unsigned)atoi(optarg);
		else if (c == 'j')
			set->json = true;
		else if (c == 'd')
			set->dir = optarg;
		else if (c == 'b')
			set->only_backing = parse_backings(optarg);
		else if (c == 'q')
			r->quick = true;
		else
			usage(), exit(c == 'h' ? 0 : 2);
	}
	if (r->rounds < 1 || r->rounds > ROUNDS_MAX / 2)
		die("--rounds: 1 to %d", ROUNDS_MAX / 2);
}

int main(int argc, char **argv)
{
	static struct results r = {.rounds = 5, .pool = 64 * MIB};
	struct settings set = {.dir = ".", .only_backing = ~0u};
	static const enum ram_kind kinds[] = {RAM_ANON, RAM_THP, RAM_MEMFD};
	unsigned missed;

	parse(argc, argv, &r, &set);
	if (!r.mem)
		r.mem = r.quick ? 128 * MIB : GIB;
	if (r.quick)
		r.rounds = 1;
	for (unsigned i = 0; i < 3; i++) {
		r.backings[i].kind = kinds[i];
		if (set.only_backing & 1u << kinds[i])
			measure_backing(&r, &r.backings[i], &set);
		else
			r.backings[i].absent = true;
	}
	if (set.json) {
		report_json(&r);
		return 0;
	}
	missed = report_print(&r);
	return r.quick && missed;
}

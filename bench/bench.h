/* SPDX-License-Identifier: MIT */
/* What the parts of bench/engine share: cells, samples, medians. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "libsnap.h"
#include "ram.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define PAGE ((size_t)4096)
#define BLOCK (2 * MIB)
#define ROUNDS_MAX 15

/** What the guest does meanwhile. */
enum load_kind { LOAD_IDLE, LOAD_RANDOM, LOAD_SEQUENTIAL, LOAD_KINDS };

/** One figure, once a round. */
struct series {
	unsigned n;
	double v[ROUNDS_MAX];
};

/** Latencies of single write faults, all rounds together. */
struct samples {
	size_t n, room;
	uint32_t *ns;
};

struct percentiles {
	size_t n;
	double p50_us, p99_us, p999_us, max_us;
};

/** A backing with a load: one line of the table. */
struct cell {
	enum ram_kind backing;
	enum load_kind load;

	struct series null_rate, file_rate, direct_rate; /* MiB/s */
	struct series pause_us, file_pause_us;
	struct series ioctls, syscalls_per_mib, faults, by_fault;
	struct series pool_waits, peak; /* bytes beside the guest's */
	struct samples writer;		/* write faults in the window */
	struct samples bare; /* ... in the bare loop under the same load */
	bool huge_pages_lost;
};

/** A backing: what does not depend on the load. */
struct backing {
	enum ram_kind kind;
	bool absent;			    /* this machine cannot have it */
	struct series copy_rate, ring_rate; /* memcpy, MiB/s */
	struct series walk_rate;	    /* page tables alone, MiB/s */
	struct samples bare_quiet;	    /* nobody but the probe writes */
	struct cell cells[LOAD_KINDS];
};

/** Everything one run found. */
struct results {
	size_t mem;
	unsigned rounds;
	size_t pool;
	bool quick, latencies;
	struct series zstd_rate, cli_rate; /* MiB/s of RAM */
	double zstd_ratio;
	struct backing backings[3];
};

double now_s(void);

void series_add(struct series *s, double v);
double series_median(const struct series *s);
double series_max(const struct series *s);

/** Drops what does not fit in memory. */
void samples_add(struct samples *s, uint64_t ns);
struct percentiles samples_percentiles(struct samples *s);
void samples_free(struct samples *s);

const char *load_name(enum load_kind kind);

/** Prints to stderr and ends the program: a benchmark has nothing to save. */
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/** The tables and the targets; returns how many count targets were missed. */
unsigned report_print(struct results *r);
void report_json(struct results *r);

#endif

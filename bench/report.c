// SPDX-License-Identifier: MIT
/* The tables of bench/engine, the targets, and the same as JSON. */
#include "bench.h"

#include <jansson.h>
#include <stdio.h>

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/* ---- tables ---- */

static void print_rates(struct backing *b)
{
	for (unsigned i = 0; i < LOAD_KINDS; i++) {
		struct cell *c = &b->cells[i];
		double copy = series_median(&b->copy_rate);
		double null = series_median(&c->null_rate);
		double file = series_median(&c->file_rate);
		double direct = series_median(&c->direct_rate);

		printf("%-6s %-10s %7.0f %7.0f %5.2f  %7.0f %7.0f %5.2f  "
		       "%8.0f %6.0f %8.2f %8.0f %6.1f\n",
		       ram_kind_name(b->kind), load_name(c->load), null, copy,
		       ratio(null, copy), file, direct, ratio(file, direct),
		       series_median(&c->pause_us), series_median(&c->ioctls),
		       series_median(&c->syscalls_per_mib),
		       series_median(&c->faults),
		       series_max(&c->peak) / (double)MIB);
	}
}

static void print_latency(const char *backing, const char *load,
			  const char *what, struct samples *s)
{
	struct percentiles p = samples_percentiles(s);

	if (p.n)
		printf("%-6s %-10s %-12s %7zu %8.1f %8.1f %8.1f %9.1f\n",
		       backing, load, what, p.n, p.p50_us, p.p99_us, p.p999_us,
		       p.max_us);
}

static void print_latencies(struct backing *b)
{
	const char *name = ram_kind_name(b->kind);

	print_latency(name, "(none)", "bare loop", &b->bare_quiet);
	for (unsigned i = 0; i < LOAD_KINDS; i++) {
		struct cell *c = &b->cells[i];

		print_latency(name, load_name(c->load), "bare loop", &c->bare);
		print_latency(name, load_name(c->load), "snapshot", &c->writer);
	}
}

/* ---- targets ---- */

struct verdict {
	unsigned missed_counts;
};

/* What a figure has to be. */
struct limit {
	double value;
	bool at_most; /* else at least */
	bool count;   /* the same on any machine: a miss fails the run */
};

static void target(struct verdict *v, const char *backing, const char *what,
		   double got, struct limit l)
{
	bool ok = l.at_most ? got <= l.value : got >= l.value;

	printf("%-4s  %-6s %-52s %9.2f  (%s %.2f)\n", ok ? "ok" : "MISS",
	       backing, what, got, l.at_most ? "<=" : ">=", l.value);
	v->missed_counts += l.count && !ok;
}

static void target_counts(struct verdict *v, struct results *r,
			  struct backing *b)
{
	const char *name = ram_kind_name(b->kind);
	struct cell *idle = &b->cells[LOAD_IDLE];
	double gib = (double)r->mem / GIB, peak = 0;
	bool lost = false;

	for (unsigned i = 0; i < LOAD_KINDS; i++) {
		double p = series_max(&b->cells[i].peak);

		peak = p > peak ? p : peak;
		lost |= b->cells[i].huge_pages_lost;
	}
	/* 520 a GiB: one for each 2 MiB and 8 to spare. */
	target(v, name, "unprotect ioctls, idle guest",
	       series_median(&idle->ioctls),
	       (struct limit){512 * gib + 8, true, true});
	target(v, name, "system calls per MiB, idle guest",
	       series_median(&idle->syscalls_per_mib),
	       (struct limit){4, true, true});
	target(v, name, "peak extra memory, MiB", peak / (double)MIB,
	       (struct limit){(double)(r->pool / MIB) + 8 + gib, true, true});
	if (b->kind == RAM_THP)
		target(v, name, "loads that cost a huge page", lost,
		       (struct limit){0, true, true});
}

static void target_latency(struct verdict *v, struct backing *b, struct cell *c)
{
	struct percentiles snap = samples_percentiles(&c->writer);
	struct percentiles bare = samples_percentiles(&c->bare);
	struct percentiles quiet = samples_percentiles(&b->bare_quiet);
	char what[80];

	if (!snap.n || !bare.n)
		return;
	snprintf(what, sizeof(what),
		 "write-fault p99 / bare loop's, %s writer in both",
		 load_name(c->load));
	target(v, ram_kind_name(b->kind), what, ratio(snap.p99_us, bare.p99_us),
	       (struct limit){2, true, false});
	snprintf(what, sizeof(what),
		 "write-fault p99, %s writer / bare loop's without",
		 load_name(c->load));
	target(v, ram_kind_name(b->kind), what,
	       ratio(snap.p99_us, quiet.p99_us),
	       (struct limit){2, true, false});
}

static void target_rates(struct verdict *v, struct results *r,
			 struct backing *b)
{
	const char *name = ram_kind_name(b->kind);
	struct cell *idle = &b->cells[LOAD_IDLE];

	target(v, name, "rate to nowhere / memcpy",
	       ratio(series_median(&idle->null_rate),
		     series_median(&b->copy_rate)),
	       (struct limit){0.5, false, false});
	if (r->quick)
		return;
	target(v, name, "rate to a file / plain O_DIRECT writer",
	       ratio(series_median(&idle->file_rate),
		     series_median(&idle->direct_rate)),
	       (struct limit){0.8, false, false});
	for (unsigned i = 0; i < LOAD_KINDS; i++)
		target_latency(v, b, &b->cells[i]);
}

static void print_tables(struct results *r)
{
	printf("%zu MiB of RAM, %u rounds, medians; MiB/s of RAM to nowhere "
	       "and of image to a file\n\n",
	       r->mem / MIB, r->rounds);
	printf("%-6s %-10s %7s %7s %5s  %7s %7s %5s  %8s %6s %8s %8s %6s\n", "",
	       "writer", "nowhere", "memcpy", "ratio", "file", "direct",
	       "ratio", "pause us", "ioctls", "sys/MiB", "faults", "extra");
	for (unsigned i = 0; i < 3; i++)
		if (!r->backings[i].absent)
			print_rates(&r->backings[i]);
	printf("\nmemcpy into 64 MiB round and round:");
	for (unsigned i = 0; i < 3; i++)
		if (!r->backings[i].absent)
			printf(" %s %.0f", ram_kind_name(r->backings[i].kind),
			       series_median(&r->backings[i].ring_rate));
	puts(" MiB/s.  extra: MiB of memory, the worst round.");
	printf("protect, unprotect by 2 MiB, unregister, nothing copied:");
	for (unsigned i = 0; i < 3; i++)
		if (!r->backings[i].absent)
			printf(" %s %.0f", ram_kind_name(r->backings[i].kind),
			       series_median(&r->backings[i].walk_rate));
	puts(" MiB/s.");
	if (r->zstd_rate.n)
		printf("zstd:1 %.0f MiB/s (x%.2f), zstd -1 -T2 %.0f MiB/s\n",
		       series_median(&r->zstd_rate), r->zstd_ratio,
		       series_median(&r->cli_rate));
}

static void print_all_latencies(struct results *r)
{
	printf("\n%-6s %-10s %-12s %7s %8s %8s %8s %9s   us, as a paced "
	       "writer sees them\n",
	       "", "writer", "write fault", "n", "p50", "p99", "p99.9", "max");
	for (unsigned i = 0; i < 3; i++)
		if (!r->backings[i].absent)
			print_latencies(&r->backings[i]);
}

unsigned report_print(struct results *r)
{
	struct verdict v = {0};

	print_tables(r);
	print_all_latencies(r);
	puts("");
	for (unsigned i = 0; i < 3; i++) {
		if (r->backings[i].absent)
			continue;
		target_counts(&v, r, &r->backings[i]);
		target_rates(&v, r, &r->backings[i]);
	}
	if (r->cli_rate.n)
		target(&v, "anon", "zstd:1 / zstd -1 -T2",
		       ratio(series_median(&r->zstd_rate),
			     series_median(&r->cli_rate)),
		       (struct limit){0.8, false, false});
	else if (!r->quick)
		puts("      there is no zstd command to compare with");
	return v.missed_counts;
}

/* ---- JSON ---- */

static json_t *latency_json(struct samples *s)
{
	struct percentiles p = samples_percentiles(s);

	return json_pack("{s:I, s:f, s:f, s:f, s:f}", "n", (json_int_t)p.n,
			 "p50", p.p50_us, "p99", p.p99_us, "p999", p.p999_us,
			 "max", p.max_us);
}

static json_t *cell_json(struct backing *b, struct cell *c)
{
	return json_pack(
		"{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
		"s:f, s:f, s:f, s:b, s:o, s:o, s:o}",
		"backing", ram_kind_name(b->kind), "load", load_name(c->load),
		"null_mib_s", series_median(&c->null_rate), "memcpy_mib_s",
		series_median(&b->copy_rate), "memcpy_ring_mib_s",
		series_median(&b->ring_rate), "walks_mib_s",
		series_median(&b->walk_rate), "file_mib_s",
		series_median(&c->file_rate), "direct_mib_s",
		series_median(&c->direct_rate), "pause_us",
		series_median(&c->pause_us), "unprotect_ioctls",
		series_median(&c->ioctls), "syscalls_per_mib",
		series_median(&c->syscalls_per_mib), "faults",
		series_median(&c->faults), "by_fault",
		series_median(&c->by_fault), "pool_wait_faults",
		series_median(&c->pool_waits), "peak_extra_mib",
		series_max(&c->peak) / (double)MIB, "huge_pages_lost",
		c->huge_pages_lost, "fault_us", latency_json(&c->writer),
		"bare_us", latency_json(&c->bare), "bare_quiet_us",
		latency_json(&b->bare_quiet));
}

void report_json(struct results *r)
{
	json_t *cells = json_array();
	json_t *root;

	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; k < LOAD_KINDS; k++)
			if (!r->backings[i].absent)
				json_array_append_new(
					cells,
					cell_json(&r->backings[i],
						  &r->backings[i].cells[k]));
	root = json_pack("{s:I, s:i, s:f, s:f, s:f, s:o}", "mem_mib",
			 (json_int_t)(r->mem / MIB), "rounds", (int)r->rounds,
			 "zstd_mib_s", series_median(&r->zstd_rate),
			 "zstd_cli_mib_s", series_median(&r->cli_rate),
			 "zstd_ratio", r->zstd_ratio, "cells", cells);
	json_dumpf(root, stdout, JSON_INDENT(1));
	puts("");
	json_decref(root);
}

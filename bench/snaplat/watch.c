// SPDX-License-Identifier: MIT
/*
 * `snaplat watch`: what a snapshot would cost a process, without taking one.
 *
 * How it works.  The RAM is what libsnap itself would save.  Present and huge
 * pages are read from /proc.  The write set comes from soft-dirty bits, which
 * the kernel sets at the first write to a page since they were cleared; where
 * it has none, the accessed bits give an upper bound.  Clearing costs the
 * process a fault for each page that it writes to (soft-dirty), or nothing
 * (accessed); it is not stopped, and nothing is attached to it.  The accessed
 * bits say nothing of a KVM guest, which uses page tables of its own.
 */
#include "options.h"

#include "calibrate.h"
#include "footprint.h"
#include "verbs.h"

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGES_MAX 4096

struct watched {
	int pid;
	double seconds;
	bool json;
	char name[32];
	unsigned threads;
	struct range ranges[RANGES_MAX];
	size_t n;
	uint64_t bytes; /* mapped */
	struct footprint at;
	const char *by; /* what the write set is from; NULL: unknown */
	const char *unknown;
	double written_pages_s; /* pages of 4 KiB, each counted once */
	bool has_costs;
	struct costs costs;
	char why[256]; /* there are none */
};

/* What is expected, microseconds and seconds. */
struct expected {
	double pause_all_us, pause_written_us, duration_s;
};

static int find_ram(struct watched *w)
{
	struct snap_options opts = {.size = sizeof(opts), .pid = w->pid};
	struct snap_region_info info = {.size = sizeof(info)};
	struct snap *s = NULL;

	if (snap_create(&s, &opts) || snap_add_ram(s)) {
		fprintf(stderr, "snaplat: %s\n", snap_error_message());
		snap_destroy(s);
		return (int)snap_error_failure();
	}
	for (w->n = 0; w->n < RANGES_MAX && !snap_get_region(s, w->n, &info);
	     w->n++) {
		w->ranges[w->n] = (struct range){info.start, info.length};
		w->bytes += info.length;
	}
	snap_destroy(s);
	return 0;
}

static void choose_method(struct watched *w)
{
	if (footprint_has_soft_dirty())
		w->by = "soft-dirty";
	else if (footprint_has_kvm(w->pid))
		w->unknown = "this kernel has no soft-dirty bits, and the "
			     "accessed bits say nothing of a KVM guest";
	else
		w->by = "accessed";
}

static bool observe(struct watched *w)
{
	bool soft = w->by && strcmp(w->by, "soft-dirty") == 0;
	struct timespec t = {.tv_sec = (time_t)w->seconds};
	uint64_t pages;

	t.tv_nsec = (long)((w->seconds - (double)t.tv_sec) * 1e9);
	if (w->by && !footprint_clear(w->pid, soft ? "4" : "1"))
		return false;
	nanosleep(&t, NULL);
	if (!footprint_read(w->pid, w->ranges, w->n, &w->at))
		return false;
	pages = soft ? w->at.soft_dirty : w->at.referenced_bytes / PAGE;
	w->written_pages_s = (double)pages / w->seconds;
	return true;
}

/* Huge pages are protected, and written to, as one. */
static double protect_us(const struct watched *w, double pages)
{
	double huge = w->at.present ? (double)(w->at.huge_bytes / PAGE) /
					      (double)w->at.present
				    : 0;

	huge = huge > 1 ? 1 : huge;
	return pages * (1 - huge) * w->costs.protect_page_us +
	       pages * huge / 512 * w->costs.protect_huge_us;
}

static struct expected expect(const struct watched *w)
{
	double present = (double)w->at.present;
	double huge_mib = (double)(w->at.huge_bytes / MIB);
	double page_mib = present * PAGE / MIB - huge_mib;
	struct expected e = {0};

	e.pause_all_us = w->costs.begin_us + protect_us(w, present);
	e.pause_written_us =
		w->costs.begin_us + protect_us(w, w->written_pages_s < present
							  ? w->written_pages_s
							  : present);
	e.duration_s = (page_mib > 0 ? page_mib : 0) / w->costs.page_mib_s +
		       huge_mib / w->costs.huge_mib_s;
	return e;
}

static double huge_share(const struct watched *w)
{
	double all = (double)w->at.present * PAGE;

	return all > 0 ? (double)w->at.huge_bytes / all : 0;
}

static void print_text(const struct watched *w, const struct expected *e)
{
	printf("%s (%d): %zu ranges of %" PRIu64 " MiB, %u threads\n", w->name,
	       w->pid, w->n, w->bytes / MIB, w->threads);
	printf("present   %" PRIu64 " MiB, %.0f %% in huge pages; %" PRIu64
	       " MiB swapped out\n",
	       w->at.present * PAGE / MIB, 100 * huge_share(w),
	       w->at.swapped * PAGE / MIB);
	if (w->by)
		printf("write set %.0f pages a second (%.1f MiB), by %s bits%s"
		       "\n",
		       w->written_pages_s, w->written_pages_s * PAGE / MIB,
		       w->by,
		       strcmp(w->by, "accessed") ? ""
						 : ": reads too, so at most");
	else
		printf("write set unknown: %s\n", w->unknown);
	if (!w->has_costs) {
		printf("expected  unknown: %s\n", w->why);
		return;
	}
	printf("pause     %.2f ms if all is protected in it",
	       e->pause_all_us / 1e3);
	if (w->by)
		printf(", %.2f ms if only what is\n          written in a "
		       "second",
		       e->pause_written_us / 1e3);
	printf("\nduration  %.3f s if the output keeps up\n", e->duration_s);
}

static void print_json(const struct watched *w, const struct expected *e)
{
	json_t *o =
		json_pack("{s:i,s:s,s:I,s:I,s:I,s:I,s:f,s:I}", "pid", w->pid,
			  "name", w->name, "ranges", (json_int_t)w->n,
			  "mapped_bytes", (json_int_t)w->bytes, "present_pages",
			  (json_int_t)w->at.present, "swapped_pages",
			  (json_int_t)w->at.swapped, "huge_share",
			  huge_share(w), "threads", (json_int_t)w->threads);

	json_object_set_new(o, "write_set_by",
			    w->by ? json_string(w->by) : json_null());
	json_object_set_new(o, "write_set_pages_per_s",
			    w->by ? json_real(w->written_pages_s)
				  : json_null());
	json_object_set_new(o, "expected_pause_us",
			    w->has_costs ? json_real(e->pause_all_us)
					 : json_null());
	json_object_set_new(o, "expected_pause_write_set_us",
			    w->has_costs && w->by
				    ? json_real(e->pause_written_us)
				    : json_null());
	json_object_set_new(o, "expected_duration_s",
			    w->has_costs ? json_real(e->duration_s)
					 : json_null());
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

static void parse(struct watched *w, int argc, char **argv)
{
	static const struct option options[] = {
		{"pid", 1, NULL, 'p'},
		{"seconds", 1, NULL, 's'},
		{"json", 0, NULL, 'j'},
		{0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (c == 'p')
			w->pid = (int)parse_number("--pid", optarg, 1, 1 << 22);
		else if (c == 's')
			w->seconds =
				parse_number("--seconds", optarg, 0.01, 3600);
		else if (c == 'j')
			w->json = true;
		else
			usage_die("%s", "unknown option");
	if (optind != argc)
		usage_die("%s: unexpected", argv[optind]);
	if (!w->pid)
		usage_die("%s", "watch needs --pid");
}

int watch_main(int argc, char **argv)
{
	static struct watched w = {.seconds = 1};
	struct expected e = {0};
	int code;

	parse(&w, argc, argv);
	code = find_ram(&w);
	if (code)
		return code;
	footprint_name(w.pid, w.name, sizeof(w.name));
	w.threads = footprint_threads(w.pid);
	choose_method(&w);
	if (!observe(&w)) {
		fprintf(stderr,
			"snaplat: process %d has gone, or its memory "
			"may not be looked at\n",
			w.pid);
		return SNAP_FAILURE_GONE;
	}
	w.has_costs = calibrate(&w.costs, w.why, sizeof(w.why));
	if (w.has_costs)
		e = expect(&w);
	if (w.json)
		print_json(&w, &e);
	else
		print_text(&w, &e);
	return 0;
}

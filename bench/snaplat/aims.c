// SPDX-License-Identifier: MIT
/*
 * What became of the aims: a line for each of those that this run has the
 * figures for.
 *
 * Everything is a ratio to, or a difference from, a row of the same run with
 * the same pattern: mode none is the noise of the machine, bare the round trip
 * of copying a page, unprotecting it and waking the writer, and its pause that
 * of protecting everything at once.
 */
#include "compare.h"

#include <stdio.h>

/* The three columns of the aims: anon, THP, memfd. */
struct aims {
	double pause_ratio, pause_us; /* one of them; 0: the other */
	double speed, stall_us;
};

static const struct aims *aims_of(enum ram_kind backing)
{
	static const struct aims anon = {0.2, 0, 0.70, 1000};
	static const struct aims thp = {0, 1000, 0.90, 1000};
	static const struct aims memfd = {0.2, 0, 0.65, 2000};

	return backing == RAM_THP ? &thp : backing == RAM_ANON ? &anon : &memfd;
}

static void line(const struct row *w, const char *what, double got,
		 double limit, bool at_most)
{
	bool ok = at_most ? got <= limit : got >= limit;

	printf("%-4s  %-6s %-9s %-52s %9.2f  (%s %g)\n", ok ? "ok" : "MISS",
	       ram_kind_name(w->backing), pattern_name(w->pattern), what, got,
	       at_most ? "<=" : ">=", limit);
}

static double ratio(const struct row *a, const struct row *b, enum figure f)
{
	double below = row_get(b, f);

	/* What cannot be told apart from nothing is a nanosecond. */
	return row_get(a, f) / (below > 1e-9 ? below : 1);
}

static void pause_line(const struct row *w, const struct row *bare)
{
	const struct aims *a = aims_of(w->backing);

	if (w->pattern != PATTERN_HOT)
		return;
	if (a->pause_us > 0)
		line(w, "pause, us", row_get(w, FIG_PAUSE), a->pause_us, true);
	else
		line(w, "pause / protecting everything in the pause",
		     ratio(w, bare, FIG_PAUSE), a->pause_ratio, true);
}

static void noise_lines(const struct row *w, const struct row *none)
{
	const struct aims *a = aims_of(w->backing);

	if (w->pattern == PATTERN_RAND_SET)
		line(w, "guest speed / mode none's", ratio(w, none, FIG_SPEED),
		     a->speed, false);
	if (w->pattern != PATTERN_IDLE)
		line(w, "longest stall over mode none's, us",
		     row_get(w, FIG_STALL) - row_get(none, FIG_STALL),
		     a->stall_us, true);
	line(w, "read p99, the guest running / mode none's",
	     ratio(w, none, FIG_RUNNING_READ_P99), 1.2, true);
}

static void page_lines(const struct row *w, const struct row *page)
{
	line(w, "mode page's write p99.9, the guest running / snap's",
	     ratio(page, w, FIG_RUNNING_P999), 10, false);
	line(w, "save rate / mode page's", ratio(w, page, FIG_RATE), 8, false);
}

void aims_print(const struct comparison *r)
{
	for (unsigned i = 0; i < r->n; i++) {
		const struct row *w = &r->rows[i];
		const struct row *none = compare_find(r, "none", w);
		const struct row *page = compare_find(r, "page", w);
		const struct row *bare = compare_bare(r, w);

		if (w->mode != &mode_snap || w->refused || !none || !bare)
			continue;
		putchar('\n');
		pause_line(w, bare);
		noise_lines(w, none);
		line(w, "write p99.9, the guest running / bare p99.9",
		     ratio(w, bare, FIG_RUNNING_P999), 2, true);
		if (page)
			page_lines(w, page);
	}
}

// SPDX-License-Identifier: MIT
/*
 * `snaplat compare`: the rounds.
 *
 * How it works.  For each backing and pattern the rounds go over all modes, so
 * that noise of the machine meets them all alike.  In a slot the guest starts
 * to work, is watched for a while, saved, watched again, and so on until the
 * slot's time is used up.  Between two saves its RAM is mended, so that each
 * one finds the same: whole huge pages, and no page shared with a child.
 */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#define BEFORE_S 0.06
#define AFTER_S 0.03
#define SETTLE_S 0.01
#define SHOTS_MAX 512

const struct mode *const compare_modes[MODES] = {
	&mode_none, &mode_snap, &mode_page, &mode_fork, &mode_stop};

/* What one slot adds up. */
struct slot {
	struct row *row;
	const struct settings *set;
	struct guest *g;
	double seconds; /* to use */
	double before_s, before_work, during_s, during_work;
	double pauses[SHOTS_MAX], saves[SHOTS_MAX], prepares[SHOTS_MAX];
	double faults;
	double counters[COUNTERS];
	unsigned n;
};

static void nap(double seconds)
{
	struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};

	nanosleep(&t, NULL);
}

static double seconds_between(const struct station *st, uint64_t from,
			      uint64_t to)
{
	return (double)ticks_to_ns(to - from, st->scale) * 1e-9;
}

static void watch_before(struct slot *s)
{
	struct station *st = s->g->station;
	uint64_t from, work;

	nap(SETTLE_S);
	poke(&st->phase, PHASE_BEFORE);
	from = ticks();
	work = guest_work(s->g);
	nap(BEFORE_S);
	s->before_work += (double)(guest_work(s->g) - work);
	s->before_s += seconds_between(st, from, ticks());
}

static void note_shot(struct slot *s, const struct shot *shot)
{
	struct station *st = s->g->station;

	if (s->n < SHOTS_MAX) {
		s->pauses[s->n] =
			seconds_between(st, shot->begin, shot->resumed) * 1e6;
		s->saves[s->n] = seconds_between(st, shot->begin, shot->done);
		s->prepares[s->n] =
			seconds_between(st, shot->asked, shot->begin);
		s->n++;
	}
	s->during_s += seconds_between(st, shot->begin, shot->end);
	s->faults += (double)shot->faults;
	s->row->has_faults = shot->has_faults;
	s->row->shots++;
}

static void read_counters(struct slot *s, uint64_t *out)
{
	if (s->g->ops->counters)
		s->g->ops->counters(s->g, out);
}

/* One save.  The first of a row is traced for the plots. */
static void take_shot(struct slot *s)
{
	struct row *row = s->row;
	struct shot shot = {.g = s->g,
			    .dir = s->set->dir,
			    .seconds = s->seconds < 0.4 ? s->seconds / 2 : 0.2};
	uint64_t counted[COUNTERS] = {0}, now[COUNTERS] = {0};
	struct watch *w = NULL;

	row->huge_before = guest_huge_bytes(s->g);
	if (!row->shots && s->set->report)
		w = trace_start(s->g);
	watch_before(s);
	read_counters(s, counted);
	shot.asked = ticks();
	row->mode->take(&shot);
	s->during_work += (double)(shot.end_work - shot.begin_work);
	read_counters(s, now);
	for (unsigned i = 0; i < COUNTERS; i++)
		s->counters[i] += (double)(int64_t)(now[i] - counted[i]);
	note_shot(s, &shot);
	nap(AFTER_S);
	poke(&s->g->station->phase, PHASE_OFF);
	if (w)
		trace_end(w, &shot, &row->trace);
	row->huge_after = guest_huge_bytes(s->g);
}

static void mend(struct slot *s)
{
	s->g->ops->pause(s->g);
	guest_mend(s->g);
	s->g->ops->resume(s->g);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v, unsigned n)
{
	qsort(v, n, sizeof(v[0]), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void note_quantiles(struct row *row, enum figure first,
			   const struct hist *h)
{
	static const double shares[] = {0.5, 0.99, 0.999};

	if (!h->n)
		return;
	for (unsigned i = 0; i < 3; i++)
		series_add(&row->figures[first + i],
			   (double)hist_quantile(h, shares[i]));
	series_add(&row->figures[first + 3], (double)h->max);
}

static void note_hists(struct row *row, const struct station *st)
{
	note_quantiles(row, FIG_P50, &st->touch[PHASE_DURING][TOUCH_WRITE]);
	note_quantiles(row, FIG_READ_P50, &st->touch[PHASE_DURING][TOUCH_READ]);
	note_quantiles(row, FIG_RUNNING_P50, &st->running[TOUCH_WRITE]);
	note_quantiles(row, FIG_RUNNING_READ_P50, &st->running[TOUCH_READ]);
	for (unsigned t = 0; t < TOUCHES; t++) {
		for (unsigned p = 0; p < PHASES; p++)
			hist_add(&row->touch[p][t], &st->touch[p][t]);
		hist_add(&row->running[t], &st->running[t]);
	}
	hist_add(&row->response, &st->response);
}

static void note_slot(struct slot *s)
{
	struct row *row = s->row;
	const struct station *st = s->g->station;
	double alone = s->before_work / s->before_s;
	double save = median(s->saves, s->n);

	note_hists(row, st);
	series_add(&row->figures[FIG_SPEED],
		   alone > 0 ? s->during_work / s->during_s / alone : 0);
	series_add(&row->figures[FIG_WORK], alone);
	series_add(&row->figures[FIG_PAUSE], median(s->pauses, s->n));
	series_add(&row->figures[FIG_SAVE], save);
	series_add(&row->figures[FIG_PREPARE], median(s->prepares, s->n));
	series_add(&row->figures[FIG_RATE], (double)(s->set->mem / MIB) / save);
	series_add(&row->figures[FIG_STALL],
		   (double)ticks_to_ns(st->stall[PHASE_DURING], st->scale) /
			   1e3);
	series_add(&row->figures[FIG_EXEC], (double)st->exec_max);
	series_add(&row->figures[FIG_FAULTS], s->faults / s->n);
	row->has_counters = s->g->ops->counters != NULL;
	for (unsigned i = 0; i < COUNTERS; i++)
		row->counters[i] = s->counters[i] / s->during_s;
}

static void run_slot(const struct settings *set, struct guest *g,
		     struct row *row)
{
	static struct slot s;
	double until;

	s = (struct slot){.row = row, .set = set, .g = g};
	s.seconds = set->seconds / set->rounds;
	guest_mend(g);
	guest_start(g, row->pattern);
	for (until = now_s() + s.seconds; !s.n || now_s() < until;) {
		double start;

		take_shot(&s);
		start = now_s();
		mend(&s);
		until += now_s() - start; /* mending is no measuring */
	}
	guest_stop(g);
	note_slot(&s);
}

/* ---- rounds ---- */

/* The rows of one backing and pattern, the bare one behind them. */
static void run_rounds(const struct settings *set, struct guest *g,
		       struct row *rows, unsigned n, struct row *bare)
{
	pattern_fill(g->ram.addr, g->ram.len / PATTERN_PAGE, bare->pattern);
	for (unsigned i = 0; i < n; i++)
		if (rows[i].mode->refuse)
			rows[i].refused = rows[i].mode->refuse(g);
	for (unsigned round = 0; round < set->rounds; round++) {
		for (unsigned i = 0; i < n; i++)
			if (!rows[i].refused)
				run_slot(set, g, &rows[i]);
		run_slot(set, g, bare);
	}
}

/* Rows for all modes; returns how many. */
static unsigned make_rows(const struct settings *set, struct row *rows,
			  enum pattern pattern, enum ram_kind backing)
{
	unsigned n = 0;

	for (unsigned m = 0; m < MODES; m++)
		if (set->modes & 1u << m)
			rows[n++] = (struct row){.mode = compare_modes[m],
						 .pattern = pattern,
						 .backing = backing};
	return n;
}

static void run_backing(const struct settings *set, struct comparison *r,
			enum ram_kind backing)
{
	struct guest g;
	const char *why = NULL;
	bool ok = guest_make(&g, set->guest, backing, set->mem, &why);

	if (ok) {
		g.threads = set->threads;
		g.station->period = ns_to_ticks((uint64_t)(set->probe_us * 1e3),
						guest_scale());
		g.station->think =
			ns_to_ticks((uint64_t)set->think_ns, guest_scale());
	}
	for (unsigned p = 0; p < PATTERNS; p++) {
		struct row *rows = &r->rows[r->n];
		struct row *bare = &r->bare[r->bare_n];
		unsigned n;

		if (!(set->patterns & 1u << p))
			continue;
		n = make_rows(set, rows, (enum pattern)p, backing);
		r->n += n;
		*bare = (struct row){.mode = &mode_bare,
				     .pattern = (enum pattern)p,
				     .backing = backing};
		r->bare_n++;
		if (ok)
			run_rounds(set, &g, rows, n, bare);
		for (unsigned i = 0; !ok && i < n; i++)
			rows[i].refused = why;
		if (!ok)
			bare->refused = why;
	}
	if (ok)
		guest_free(&g);
}

void compare_run(const struct settings *set, struct comparison *out)
{
	static const enum ram_kind kinds[BACKINGS] = {RAM_ANON, RAM_THP,
						      RAM_MEMFD};

	*out = (struct comparison){.set = set};
	out->rows =
		calloc((size_t)MODES * PATTERNS * BACKINGS, sizeof(struct row));
	out->bare = calloc((size_t)PATTERNS * BACKINGS, sizeof(struct row));
	if (!out->rows || !out->bare)
		die("out of memory");
	for (unsigned i = 0; i < BACKINGS; i++)
		if (set->backings & 1u << i)
			run_backing(set, out, kinds[i]);
	for (unsigned i = 0; i < out->n; i++)
		out->omitted += out->rows[i].refused != NULL;
}

// SPDX-License-Identifier: MIT
/* Names and summaries of a row's figures. */
#include "compare.h"

#include <string.h>

const char *figure_name(enum figure f)
{
	static const char *const names[FIGURES] = {"p50_ns",
						   "p99_ns",
						   "p999_ns",
						   "max_ns",
						   "read_p50_ns",
						   "read_p99_ns",
						   "read_p999_ns",
						   "read_max_ns",
						   "running_p50_ns",
						   "running_p99_ns",
						   "running_p999_ns",
						   "running_max_ns",
						   "running_read_p50_ns",
						   "running_read_p99_ns",
						   "running_read_p999_ns",
						   "running_read_max_ns",
						   "guest_speed",
						   "pause_us",
						   "save_s",
						   "prepare_s",
						   "save_mib_s",
						   "stall_us",
						   "faults",
						   "exec_max_cycles",
						   "work_per_s"};

	return names[f];
}

static bool is_maximum(enum figure f)
{
	return f == FIG_MAX || f == FIG_READ_MAX || f == FIG_RUNNING_MAX ||
	       f == FIG_RUNNING_READ_MAX;
}

double row_min(const struct row *row, enum figure f)
{
	const struct series *s = &row->figures[f];
	double min = s->n ? s->v[0] : 0;

	for (unsigned i = 1; i < s->n; i++)
		min = s->v[i] < min ? s->v[i] : min;
	return min;
}

double row_max(const struct row *row, enum figure f)
{
	return series_max(&row->figures[f]);
}

/* The largest of all is one figure of all rounds. */
double row_get(const struct row *row, enum figure f)
{
	return is_maximum(f) ? row_max(row, f)
			     : series_median(&row->figures[f]);
}

static const struct row *find(const struct row *rows, unsigned n,
			      const char *mode, const struct row *beside)
{
	for (unsigned i = 0; i < n; i++)
		if (rows[i].pattern == beside->pattern &&
		    rows[i].backing == beside->backing && !rows[i].refused &&
		    strcmp(rows[i].mode->name, mode) == 0)
			return &rows[i];
	return NULL;
}

const struct row *compare_find(const struct comparison *r, const char *mode,
			       const struct row *beside)
{
	return find(r->rows, r->n, mode, beside);
}

const struct row *compare_bare(const struct comparison *r,
			       const struct row *beside)
{
	return find(r->bare, r->bare_n, "bare", beside);
}

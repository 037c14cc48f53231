/* SPDX-License-Identifier: MIT */
/* What `snaplat compare` is asked for, and what it finds. */
#ifndef SNAPLAT_COMPARE_H
#define SNAPLAT_COMPARE_H

#include "bench.h"
#include "guest.h"
#include "mode.h"

#define MODES 5
#define BACKINGS 3

struct settings {
	size_t mem;
	double seconds;			    /* for each row, over all rounds */
	unsigned rounds;		    /* ROUNDS_MAX at most */
	unsigned patterns, backings, modes; /* a bit each */
	const struct guest_ops *guest;
	const char *json, *report, *dir;
	double probe_us, think_ns;
	unsigned threads;
};

/** The modes in the order of the table. */
extern const struct mode *const compare_modes[MODES];

/** A quantity, once a round. */
enum figure {
	FIG_P50, /* of the probe's writes, nanoseconds */
	FIG_P99,
	FIG_P999,
	FIG_MAX,
	FIG_READ_P50, /* of its reads */
	FIG_READ_P99,
	FIG_READ_P999,
	FIG_READ_MAX,
	FIG_RUNNING_P50, /* of writes that were due when the guest ran */
	FIG_RUNNING_P99,
	FIG_RUNNING_P999,
	FIG_RUNNING_MAX,
	FIG_RUNNING_READ_P50,
	FIG_RUNNING_READ_P99,
	FIG_RUNNING_READ_P999,
	FIG_RUNNING_READ_MAX,
	FIG_SPEED,   /* against the same guest without, 1 = the same */
	FIG_PAUSE,   /* microseconds */
	FIG_SAVE,    /* seconds */
	FIG_PREPARE, /* seconds before the pause */
	FIG_RATE,    /* MiB/s */
	FIG_STALL,   /* microseconds between two steps of the work */
	FIG_FAULTS,
	FIG_EXEC, /* cycles */
	FIG_WORK, /* steps a second without */
	FIGURES,
};

/** The name of a figure in the JSON. */
const char *figure_name(enum figure f);

/** The work done over time around one save. */
struct trace {
	struct sample {
		uint64_t at, work;
	} * samples;
	unsigned n;
	uint64_t begin, resumed, end, done; /* ticks of the observer */
	struct mark *marks;
	unsigned marks_n;
	uint64_t scale;
};

struct row {
	const struct mode *mode;
	enum pattern pattern;
	enum ram_kind backing;
	const char *refused; /* why there are no figures */
	struct series figures[FIGURES];
	unsigned shots;
	bool has_faults;
	struct hist touch[PHASES][TOUCHES], running[TOUCHES], response;
	uint64_t huge_before, huge_after; /* bytes, of the last save */
	double counters[COUNTERS];	  /* during, a second */
	bool has_counters;
	struct trace trace;
};

struct comparison {
	const struct settings *set;
	struct row *rows; /* without the bare ones */
	unsigned n;
	struct row *bare; /* one a pattern and backing */
	unsigned bare_n;
	unsigned omitted; /* rows that could not be */
};

/** Run everything. */
void compare_run(const struct settings *set, struct comparison *out);
/** The row of that mode beside this one, or NULL. */
const struct row *compare_find(const struct comparison *r, const char *mode,
			       const struct row *beside);
const struct row *compare_bare(const struct comparison *r,
			       const struct row *beside);

/** One save in the midst of a round. */
struct watch;
struct watch *trace_start(struct guest *g);
void trace_end(struct watch *w, const struct shot *s, struct trace *out);

/** The median. */
double row_get(const struct row *row, enum figure f);
double row_min(const struct row *row, enum figure f);
double row_max(const struct row *row, enum figure f);

void table_print(const struct comparison *r);
/** A line for each aim of issue 4 that this run has the figures for. */
void aims_print(const struct comparison *r);
void json_write(const struct comparison *r);
void html_write(const struct comparison *r);

#endif

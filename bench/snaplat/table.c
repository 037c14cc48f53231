// SPDX-License-Identifier: MIT
/* The table, and what became of the aims. */
#include "compare.h"

#include <stdio.h>
#include <string.h>

static void print_head(const struct comparison *r)
{
	const struct settings *set = r->set;

	printf("%zu MiB of RAM, %s guest, %u working thread%s, a touch every "
	       "%.0f us, %.2f s a row in\n%u interleaved rounds; to %s.  "
	       "Medians of the rounds; latencies of the probe's writes\n(and "
	       "reads) from the pause's beginning until nothing is protected, "
	       "in microseconds.\n",
	       set->mem / MIB, set->guest->name, set->threads,
	       set->threads == 1 ? "" : "s", set->probe_us, set->seconds,
	       set->rounds, set->dir ? set->dir : "/dev/null");
}

static void print_row(const struct row *w)
{
	if (w->refused) {
		printf("%-6s omitted: %s\n", w->mode->name, w->refused);
		return;
	}
	printf("%-6s %8.1f %8.1f %8.1f %9.1f  %8.1f  %6.1f%% %5.1f-%-5.1f "
	       "%9.0f %9.0f %8.3f %7.0f %8.0f\n",
	       w->mode->name, row_get(w, FIG_P50) / 1e3,
	       row_get(w, FIG_P99) / 1e3, row_get(w, FIG_P999) / 1e3,
	       row_get(w, FIG_MAX) / 1e3, row_get(w, FIG_READ_P99) / 1e3,
	       100 * row_get(w, FIG_SPEED), 100 * row_min(w, FIG_SPEED),
	       100 * row_max(w, FIG_SPEED), row_get(w, FIG_STALL),
	       row_get(w, FIG_PAUSE), row_get(w, FIG_SAVE),
	       w->mode == &mode_none || w->mode == &mode_bare
		       ? 0
		       : row_get(w, FIG_RATE),
	       w->has_faults ? row_get(w, FIG_FAULTS) : 0);
}

void table_print(const struct comparison *r)
{
	const struct row *last = NULL;

	print_head(r);
	for (unsigned i = 0; i < r->n; i++) {
		const struct row *w = &r->rows[i], *bare = compare_bare(r, w);

		if (!last || last->pattern != w->pattern ||
		    last->backing != w->backing)
			printf("\n%s, %s\n%-6s %8s %8s %8s %9s  %8s  %7s %-11s "
			       "%9s %9s %8s %7s %8s\n",
			       ram_kind_name(w->backing),
			       pattern_name(w->pattern), "", "p50", "p99",
			       "p99.9", "max", "read p99", "speed", "min-max",
			       "stall us", "pause us", "save s", "MiB/s",
			       "faults");
		last = w;
		print_row(w);
		if (bare &&
		    (i + 1 == r->n || r->rows[i + 1].pattern != w->pattern ||
		     r->rows[i + 1].backing != w->backing))
			print_row(bare);
	}
	puts("\nnone: the machine's own noise.  bare: everything protected, "
	     "one thread that copies one\npage, unprotects it and wakes the "
	     "writer; nothing is saved.");
}

// SPDX-License-Identifier: MIT
/* The rows as JSON, with everything that the table has no room for. */
#include "compare.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const phase_names[PHASES] = {NULL, "before", "during",
						"after"};

static json_t *hist_json(const struct hist *h)
{
	json_t *buckets = json_array();

	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		if (h->counts[i])
			json_array_append_new(
				buckets,
				json_pack("[I,I]",
					  (json_int_t)hist_bucket_end(i),
					  (json_int_t)h->counts[i]));
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:o}", "n", (json_int_t)h->n,
			 "p50_ns", (json_int_t)hist_quantile(h, 0.5), "p99_ns",
			 (json_int_t)hist_quantile(h, 0.99), "p999_ns",
			 (json_int_t)hist_quantile(h, 0.999), "max_ns",
			 (json_int_t)h->max, "buckets_ns", buckets);
}

static json_t *phases_json(const struct row *w)
{
	json_t *o = json_object();

	for (unsigned p = PHASE_BEFORE; p < PHASES; p++)
		json_object_set_new(
			o, phase_names[p],
			json_pack("{s:o,s:o}", "write",
				  hist_json(&w->touch[p][TOUCH_WRITE]), "read",
				  hist_json(&w->touch[p][TOUCH_READ])));
	json_object_set_new(o, "running",
			    json_pack("{s:o,s:o}", "write",
				      hist_json(&w->running[TOUCH_WRITE]),
				      "read",
				      hist_json(&w->running[TOUCH_READ])));
	json_object_set_new(o, "response", hist_json(&w->response));
	return o;
}

/* Times of less than nanoseconds nobody measured. */
static json_t *number(enum figure f, double v)
{
	return strstr(figure_name(f), "_ns") ? json_integer((json_int_t)v)
					     : json_real(v);
}

static void add_figures(json_t *o, const struct row *w)
{
	json_t *min = json_object(), *max = json_object();

	for (unsigned f = 0; f < FIGURES; f++) {
		const char *name = figure_name(f);

		if (f == FIG_EXEC && w->pattern != PATTERN_EXEC)
			continue;
		if (f == FIG_FAULTS && !w->has_faults)
			continue;
		json_object_set_new(o, name, number(f, row_get(w, f)));
		json_object_set_new(min, name, number(f, row_min(w, f)));
		json_object_set_new(max, name, number(f, row_max(w, f)));
	}
	json_object_set_new(o, "min", min);
	json_object_set_new(o, "max", max);
}

static void add_counters(json_t *o, const struct row *w)
{
	json_t *rates = json_object();

	for (unsigned i = 0; i < COUNTERS; i++)
		json_object_set_new(rates, guest_counter_name(i),
				    json_real(w->counters[i]));
	json_object_set_new(o, "kvm_per_s", rates);
}

static json_t *row_json(const struct row *w)
{
	json_t *o = json_pack("{s:s,s:s,s:s}", "mode", w->mode->name, "pattern",
			      pattern_name(w->pattern), "backing",
			      ram_kind_name(w->backing));

	if (w->refused) {
		json_object_set_new(o, "omitted", json_string(w->refused));
		return o;
	}
	add_figures(o, w);
	json_object_set_new(o, "saves", json_integer(w->shots));
	json_object_set_new(o, "huge_mib_before",
			    json_integer((json_int_t)(w->huge_before / MIB)));
	json_object_set_new(o, "huge_mib_after",
			    json_integer((json_int_t)(w->huge_after / MIB)));
	if (w->has_counters)
		add_counters(o, w);
	json_object_set_new(o, "histograms", phases_json(w));
	return o;
}

/* Those that could not be are told apart, so that each row has all fields. */
static void add_rows(json_t *rows, json_t *omitted, const struct row *w,
		     unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		json_array_append_new(w[i].refused ? omitted : rows,
				      row_json(&w[i]));
}

void json_write(const struct comparison *r)
{
	const struct settings *set = r->set;
	json_t *rows = json_array(), *omitted = json_array();
	json_t *bare = json_array(), *o;
	bool to_stdout = strcmp(set->json, "-") == 0;

	add_rows(rows, omitted, r->rows, r->n);
	add_rows(bare, omitted, r->bare, r->bare_n);
	o = json_pack("{s:I,s:s,s:I,s:f,s:f,s:f,s:f,s:s,s:o,s:o,s:o}",
		      "mem_bytes", (json_int_t)set->mem, "guest",
		      set->guest->name, "rounds", (json_int_t)set->rounds,
		      "seconds", set->seconds, "probe_us", set->probe_us,
		      "think_ns", set->think_ns, "threads",
		      (double)set->threads, "output",
		      set->dir ? set->dir : "/dev/null", "rows", rows, "bare",
		      bare, "omitted", omitted);
	if (!o)
		die("out of memory");
	if (to_stdout ? json_dumpf(o, stdout, JSON_COMPACT) || puts("") < 0
		      : json_dump_file(o, set->json, JSON_COMPACT))
		die("cannot write %s: %s", set->json, strerror(errno));
	json_decref(o);
}

// SPDX-License-Identifier: MIT
/* Figures of all snapshots together, as Prometheus reads them. */
#include "metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* 5 us to 1 s; the last has no bound. */
static const uint64_t bounds_ns[METRICS_BUCKETS] = {
	5000,	  10000,     25000,	 50000,	     100000,   250000,
	500000,	  1000000,   2500000,	 5000000,    10000000, 25000000,
	50000000, 100000000, 1000000000, UINT64_MAX,
};

void metrics_add_running(struct metrics *m, struct snap *s)
{
	struct snap_stats st = {.size = sizeof(st)};
	uint64_t counts[METRICS_BUCKETS];
	unsigned i;

	if (!s || snap_get_stats(s, &st))
		return;
	m->faults += st.faults;
	m->by_fault += st.pages_by_fault;
	m->by_sweep += st.pages_by_sweep;
	m->in_pause += st.pages_in_pause;
	m->absent += st.pages_absent;
	m->unprotect_ranges += st.unprotect_ioctls;
	m->pool_waits += st.pool_wait_faults;
	m->bytes_written += st.bytes_written;
	m->discards += st.discards;
	m->pause_seconds += (double)st.pause_ns / 1e9;
	m->fault_seconds += (double)st.fault_sum_ns / 1e9;
	snap_count_faults(s, bounds_ns, counts, METRICS_BUCKETS);
	for (i = 0; i < METRICS_BUCKETS; i++)
		m->fault_buckets[i] += counts[i];
}

void metrics_add(struct metrics *m, struct snap *s, enum exit_code code)
{
	m->ended[(unsigned)code < METRICS_CODES ? code : EXIT_FAILED]++;
	metrics_add_running(m, s);
}

static void counter(FILE *f, const char *name, const char *help, uint64_t value)
{
	fprintf(f,
		"# HELP snapd_%s %s\n# TYPE snapd_%s counter\n"
		"snapd_%s %" PRIu64 "\n",
		name, help, name, name, value);
}

static void snapshots(FILE *f, const struct metrics *m, unsigned running)
{
	static const char *const reasons[METRICS_CODES] = {
		"complete", "internal", "usage", "refused",
		"gone",	    "output",	"image", "cancelled"};
	unsigned i;

	fputs("# HELP snapd_snapshots_total Snapshots that have ended, by "
	      "reason\n# TYPE snapd_snapshots_total counter\n",
	      f);
	for (i = 0; i < METRICS_CODES; i++)
		fprintf(f, "snapd_snapshots_total{reason=\"%s\"} %" PRIu64 "\n",
			reasons[i], m->ended[i]);
	fprintf(f,
		"# HELP snapd_snapshots_running Snapshots being taken\n"
		"# TYPE snapd_snapshots_running gauge\n"
		"snapd_snapshots_running %u\n",
		running);
}

static void pages(FILE *f, const struct metrics *m)
{
	fprintf(f,
		"# HELP snapd_pages_total Pages of 4 KiB, by who saved them\n"
		"# TYPE snapd_pages_total counter\n"
		"snapd_pages_total{by=\"fault\"} %" PRIu64 "\n"
		"snapd_pages_total{by=\"sweep\"} %" PRIu64 "\n"
		"snapd_pages_total{by=\"pause\"} %" PRIu64 "\n"
		"snapd_pages_total{by=\"absent\"} %" PRIu64 "\n",
		m->by_fault, m->by_sweep, m->in_pause, m->absent);
}

static void latencies(FILE *f, const struct metrics *m)
{
	unsigned i;

	fputs("# HELP snapd_fault_seconds From a fault's message to its wake\n"
	      "# TYPE snapd_fault_seconds histogram\n",
	      f);
	for (i = 0; i + 1 < METRICS_BUCKETS; i++)
		fprintf(f,
			"snapd_fault_seconds_bucket{le=\"%g\"} %" PRIu64 "\n",
			(double)bounds_ns[i] / 1e9, m->fault_buckets[i]);
	fprintf(f,
		"snapd_fault_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n"
		"snapd_fault_seconds_sum %.9f\n"
		"snapd_fault_seconds_count %" PRIu64 "\n",
		m->fault_buckets[i], m->fault_seconds, m->fault_buckets[i]);
	fprintf(f,
		"# HELP snapd_pause_seconds_total Time that processes stood "
		"at the snapshot point\n"
		"# TYPE snapd_pause_seconds_total counter\n"
		"snapd_pause_seconds_total %.9f\n",
		m->pause_seconds);
}

char *metrics_text(const struct metrics *m, unsigned running)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	snapshots(f, m, running);
	pages(f, m);
	counter(f, "faults_total", "Fault messages read", m->faults);
	counter(f, "unprotect_ranges_total", "Ranges unprotected",
		m->unprotect_ranges);
	counter(f, "pool_waits_total", "Faults that waited for a buffer",
		m->pool_waits);
	counter(f, "written_bytes_total", "Bytes of images", m->bytes_written);
	counter(f, "discards_total", "Discards saved before they went on",
		m->discards);
	latencies(f, m);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

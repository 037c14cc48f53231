// SPDX-License-Identifier: MIT
/* The report: one file with everything in it, no scripts and no network. */
#include "html.h"

#include <errno.h>
#include <string.h>

static const char *const head =
	"<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">"
	"<title>snaplat: what the guest feels</title>\n<style>\n"
	"body{font:15px/1.45 system-ui,sans-serif;color:#1c2330;"
	"background:#fff;max-width:1440px;margin:24px auto;padding:0 20px}\n"
	"h1{font-size:24px;margin:0 0 6px}h2{font-size:19px;margin:34px 0 8px;"
	"border-top:1px solid #ccd2dc;padding-top:18px}\n"
	"table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
	"th,td{padding:3px 11px;text-align:right;border-bottom:1px solid "
	"#e4e8ee;white-space:nowrap}th:first-child,td:first-child"
	"{text-align:left}th{font-weight:600}\n"
	".plots{display:flex;flex-wrap:wrap;align-items:flex-start;gap:14px;"
	"margin-top:12px}"
	".scroll{overflow-x:auto}\n"
	"svg{max-width:100%;height:auto}text{font:11px system-ui,sans-serif;"
	"fill:#3c4656}.title{font-weight:600;font-size:13px;fill:#1c2330}\n"
	".frame{fill:none;stroke:#8a93a3}.grid{stroke:#e4e8ee}"
	".curve{fill:none;stroke-width:1.8}\n"
	".window{fill:#f6ecd2}.pause{fill:#e9c46a}\n"
	".c0{fill:#6b7280}.s0{stroke:#6b7280}.c1{fill:#0a7d5a}"
	".s1{stroke:#0a7d5a}.c2{fill:#b3261e}.s2{stroke:#b3261e}\n"
	".c3{fill:#2457c5}.s3{stroke:#2457c5}.c4{fill:#8b3fae}"
	".s4{stroke:#8b3fae}.c5{fill:#111827}.s5{stroke:#111827;"
	"stroke-dasharray:4 3}\n"
	"</style></head>\n<body>\n";

static void settings_html(FILE *f, const struct settings *set)
{
	fprintf(f,
		"<h1>What the guest feels</h1>\n<p>%zu MiB of RAM, %s guest, "
		"the probe touches a page every %.0f us, %.2f s a row in %u "
		"interleaved rounds. Latencies are those of the probe's writes "
		"from the beginning of the pause until nothing is protected; "
		"medians of the rounds. Mode none is the noise of the machine, "
		"bare the round trip of copying one page, unprotecting it and "
		"waking the writer.</p>\n",
		set->mem / MIB, set->guest->name, set->probe_us, set->seconds,
		set->rounds);
}

static void row_html(FILE *f, const struct row *w)
{
	bool saves = w->mode != &mode_none && w->mode != &mode_bare;

	if (w->refused) {
		fprintf(f,
			"<tr><td>%s</td><td colspan=\"9\">omitted: %s</td>"
			"</tr>\n",
			w->mode->name, w->refused);
		return;
	}
	fprintf(f,
		"<tr><td>%s</td><td>%.1f</td><td>%.1f</td><td>%.1f</td><td>"
		"%.1f</td><td>%.1f</td><td>%.1f (%.1f to %.1f)</td><td>%.0f"
		"</td><td>%.0f</td><td>%.0f</td></tr>\n",
		w->mode->name, row_get(w, FIG_P50) / 1e3,
		row_get(w, FIG_P99) / 1e3, row_get(w, FIG_P999) / 1e3,
		row_get(w, FIG_MAX) / 1e3, row_get(w, FIG_READ_P99) / 1e3,
		100 * row_get(w, FIG_SPEED), 100 * row_min(w, FIG_SPEED),
		100 * row_max(w, FIG_SPEED), row_get(w, FIG_STALL),
		row_get(w, FIG_PAUSE), saves ? row_get(w, FIG_RATE) : 0);
}

static void group_html(FILE *f, const struct comparison *r,
		       const struct row *first, unsigned n)
{
	const struct row *bare = compare_bare(r, first);

	fprintf(f,
		"<h2>%s, %s</h2>\n<div class=\"scroll\"><table><tr><th>mode"
		"</th><th>p50 us</th><th>p99 us</th><th>p99.9 us</th><th>max us"
		"</th><th>read p99 us</th><th>guest speed %%</th><th>stall us"
		"</th><th>pause us</th><th>save MiB/s</th></tr>\n",
		ram_kind_name(first->backing), pattern_name(first->pattern));
	for (unsigned i = 0; i < n; i++)
		row_html(f, &first[i]);
	if (bare)
		row_html(f, bare);
	fputs("</table></div>\n<div class=\"plots\">\n", f);
	plot_percentiles(f, r, first, n);
	for (unsigned i = 0; i < n; i++)
		if (!first[i].refused && first[i].trace.n)
			plot_latency(f, &first[i]);
	for (unsigned i = 0; i < n; i++)
		if (!first[i].refused && first[i].trace.n)
			plot_speed(f, &first[i]);
	fputs("</div>\n", f);
}

/* Rows of one backing and pattern lie side by side. */
static unsigned group_length(const struct comparison *r, unsigned at)
{
	unsigned n = 1;

	while (at + n < r->n &&
	       r->rows[at + n].pattern == r->rows[at].pattern &&
	       r->rows[at + n].backing == r->rows[at].backing)
		n++;
	return n;
}

void html_write(const struct comparison *r)
{
	FILE *f = fopen(r->set->report, "we");
	unsigned n;

	if (!f)
		die("cannot write %s: %s", r->set->report, strerror(errno));
	fputs(head, f);
	settings_html(f, r->set);
	for (unsigned i = 0; i < r->n; i += n) {
		n = group_length(r, i);
		group_html(f, r, &r->rows[i], n);
	}
	fputs("</body>\n</html>\n", f);
	if (ferror(f) | fclose(f))
		die("cannot write %s: %s", r->set->report, strerror(errno));
}

// SPDX-License-Identifier: MIT
/* The three plots. */
#include "html.h"

#include <math.h>

#define COLUMNS 240
#define BEFORE_MS 70

static const double quantiles[] = {0.5, 0.9, 0.99, 0.999, 0.9999, 1};
static const char *const quantile_names[] = {"50 %",   "90 %",	  "99 %",
					     "99.9 %", "99.99 %", "max"};
#define QUANTILES (sizeof(quantiles) / sizeof(quantiles[0]))

/* ---- percentiles by mode ---- */

static void quantile_curve(struct frame *fr, const struct row *w)
{
	const struct hist *h = &w->touch[PHASE_DURING][TOUCH_WRITE];
	unsigned colour = svg_colour(w->mode);

	fprintf(fr->f, "<polyline class=\"curve s%u\" points=\"", colour);
	for (unsigned i = 0; i < QUANTILES; i++)
		fprintf(fr->f, "%.1f,%.1f ", frame_x(fr, i),
			frame_y(fr, (double)hist_quantile(h, quantiles[i])));
	fputs("\"/>\n", fr->f);
	for (unsigned i = 0; i < QUANTILES; i++)
		fprintf(fr->f,
			"<circle class=\"c%u\" cx=\"%.1f\" cy=\"%.1f\" "
			"r=\"2.5\"><title>%s, %s: %.1f us</title></circle>\n",
			colour, frame_x(fr, i),
			frame_y(fr, (double)hist_quantile(h, quantiles[i])),
			w->mode->name, quantile_names[i],
			(double)hist_quantile(h, quantiles[i]) / 1e3);
	svg_legend(fr, colour, w->mode->name);
}

static double largest(const struct row *rows, unsigned n)
{
	double max = 1e6;

	for (unsigned i = 0; i < n; i++)
		if (row_max(&rows[i], FIG_MAX) > max)
			max = row_max(&rows[i], FIG_MAX);
	return pow(10, ceil(log10(max)));
}

void plot_percentiles(FILE *f, const struct comparison *r,
		      const struct row *first, unsigned n)
{
	struct frame fr = {.f = f, .x_max = QUANTILES - 1, .y_log = true};
	const struct row *bare = compare_bare(r, first);

	fr.x_min = -0.3;
	fr.x_max += 0.3;
	fr.y_min = 10;
	fr.y_max = largest(first, n);
	svg_begin(&fr, "Latency of the probe's writes, by percentile", 460,
		  320);
	svg_y_axis(&fr, "");
	for (unsigned i = 0; i < QUANTILES; i++)
		svg_x_label(&fr, i, quantile_names[i]);
	for (unsigned i = 0; i < n; i++)
		if (!first[i].refused)
			quantile_curve(&fr, &first[i]);
	if (bare)
		quantile_curve(&fr, bare);
	svg_end(&fr);
}

/* ---- over time ---- */

static double ms_from_begin(const struct trace *t, uint64_t at)
{
	return (double)(int64_t)(at - t->begin) * (double)t->scale / 0x1p32 /
	       1e6;
}

static void time_frame(struct frame *fr, const struct row *w, const char *title)
{
	const struct trace *t = &w->trace;
	double end = ms_from_begin(t, t->end);
	char text[32];

	fr->x_min = t->n ? ms_from_begin(t, t->samples[0].at) : -1;
	/* Preparing may take long, and shows nothing. */
	if (fr->x_min < -BEFORE_MS)
		fr->x_min = -BEFORE_MS;
	fr->x_max = t->n ? ms_from_begin(t, t->samples[t->n - 1].at) : 1;
	svg_begin(fr, title, 460, 220);
	fprintf(fr->f,
		"<rect class=\"window\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
		"height=\"%.1f\"/><rect class=\"pause\" x=\"%.1f\" y=\"%.1f\" "
		"width=\"%.1f\" height=\"%.1f\"/>\n",
		frame_x(fr, 0), fr->top, frame_x(fr, end) - frame_x(fr, 0),
		fr->height, frame_x(fr, 0), fr->top,
		frame_x(fr, ms_from_begin(t, t->resumed)) - frame_x(fr, 0),
		fr->height);
	for (unsigned i = 0; i <= 4; i++) {
		double x = fr->x_min + (fr->x_max - fr->x_min) * i / 4;

		snprintf(text, sizeof(text), "%.0f ms", x);
		svg_x_label(fr, x, text);
	}
}

static unsigned column_of(const struct frame *fr, double x)
{
	double c = (x - fr->x_min) / (fr->x_max - fr->x_min) * COLUMNS;

	return c < 0 ? 0 : c >= COLUMNS ? COLUMNS - 1 : (unsigned)c;
}

/* The longest touch of each column of the picture, as a bar. */
static void latency_bars(struct frame *fr, const struct row *w)
{
	uint32_t worst[COLUMNS] = {0};
	double step = fr->width / COLUMNS;

	for (unsigned i = 0; i < w->trace.marks_n; i++) {
		const struct mark *m = &w->trace.marks[i];
		double x = ms_from_begin(&w->trace, m->due);
		unsigned c = column_of(fr, x);

		if (m->touch == TOUCH_WRITE && x >= fr->x_min &&
		    x <= fr->x_max && m->ns > worst[c])
			worst[c] = m->ns;
	}
	for (unsigned c = 0; c < COLUMNS; c++) {
		double y = frame_y(fr, worst[c]);

		if (worst[c])
			fprintf(fr->f,
				"<rect class=\"c%u\" x=\"%.1f\" y=\"%.1f\" "
				"width=\"%.2f\" height=\"%.1f\"/>\n",
				svg_colour(w->mode), fr->left + c * step, y,
				step, fr->top + fr->height - y);
	}
}

void plot_latency(FILE *f, const struct row *w)
{
	struct frame fr = {.f = f, .y_min = 10, .y_max = 1e8, .y_log = true};
	char title[80];

	snprintf(title, sizeof(title), "%s: longest write of the probe",
		 w->mode->name);
	time_frame(&fr, w, title);
	svg_y_axis(&fr, "");
	latency_bars(&fr, w);
	svg_end(&fr);
}

static double speed_before(const struct trace *t)
{
	unsigned n = 0;

	while (n + 1 < t->n && t->samples[n + 1].at < t->begin)
		n++;
	return n ? (double)(t->samples[n].work - t->samples[0].work) /
			       (ms_from_begin(t, t->samples[n].at) -
				ms_from_begin(t, t->samples[0].at))
		 : 0;
}

/* The work of some milliseconds at a time, else it is all jitter. */
static void speed_curve(struct frame *fr, const struct row *w)
{
	const struct trace *t = &w->trace;
	double alone = speed_before(t);
	unsigned step = t->n / 100 + 2;

	if (alone <= 0)
		return;
	fprintf(fr->f, "<polyline class=\"curve s%u\" points=\"",
		svg_colour(w->mode));
	for (unsigned i = 0; i + step < t->n; i += step) {
		double from = ms_from_begin(t, t->samples[i].at);
		double to = ms_from_begin(t, t->samples[i + step].at);
		double work = (double)(t->samples[i + step].work -
				       t->samples[i].work);

		if (from < fr->x_min)
			continue;
		fprintf(fr->f, "%.1f,%.1f ", frame_x(fr, (from + to) / 2),
			frame_y(fr, 100 * work / (to - from) / alone));
	}
	fputs("\"/>\n", fr->f);
}

void plot_speed(FILE *f, const struct row *w)
{
	struct frame fr = {.f = f, .y_max = 140};
	char title[80];

	snprintf(title, sizeof(title), "%s: speed of the guest's work",
		 w->mode->name);
	time_frame(&fr, w, title);
	svg_y_axis(&fr, " %");
	speed_curve(&fr, w);
	svg_end(&fr);
}

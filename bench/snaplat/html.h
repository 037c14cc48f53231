/* SPDX-License-Identifier: MIT */
/* Scales and shapes of the plots. */
#ifndef SNAPLAT_HTML_H
#define SNAPLAT_HTML_H

#include "compare.h"

#include <stdio.h>

/** A plot's frame: where its axes' ends are in the picture, and what they
 * mean. */
struct frame {
	FILE *f;
	double left, top, width, height;
	double x_min, x_max, y_min, y_max;
	bool x_log, y_log;
};

double frame_x(const struct frame *fr, double x);
double frame_y(const struct frame *fr, double y);

void svg_begin(struct frame *fr, const char *title, double width,
	       double height);
void svg_end(struct frame *fr);
/** Grid lines and labels of the y axis: powers of ten, or five steps. */
void svg_y_axis(struct frame *fr, const char *unit);
void svg_x_label(struct frame *fr, double x, const char *text);
void svg_legend(struct frame *fr, unsigned index, const char *text);
/** The colour's class of the mode: "c0" and so on. */
unsigned svg_colour(const struct mode *mode);

/** Percentiles of the modes beside each other. */
void plot_percentiles(FILE *f, const struct comparison *r,
		      const struct row *first, unsigned n);
/** Latency of each touch, and the work's speed, around one save. */
void plot_latency(FILE *f, const struct row *w);
void plot_speed(FILE *f, const struct row *w);

#endif

// SPDX-License-Identifier: MIT
/* The parts that all plots are made of. */
#include "html.h"

#include <math.h>

static double place(double v, double min, double max, bool logarithmic)
{
	if (logarithmic) {
		v = log10(v > min ? v : min);
		min = log10(min);
		max = log10(max);
	}
	v = (v - min) / (max - min);
	return v < 0 ? 0 : v > 1 ? 1 : v;
}

double frame_x(const struct frame *fr, double x)
{
	return fr->left + fr->width * place(x, fr->x_min, fr->x_max, fr->x_log);
}

double frame_y(const struct frame *fr, double y)
{
	return fr->top +
	       fr->height * (1 - place(y, fr->y_min, fr->y_max, fr->y_log));
}

unsigned svg_colour(const struct mode *mode)
{
	for (unsigned i = 0; i < MODES; i++)
		if (compare_modes[i] == mode)
			return i;
	return MODES; /* bare */
}

void svg_begin(struct frame *fr, const char *title, double width, double height)
{
	fr->left = 58;
	fr->top = 26;
	fr->width = width - fr->left - 22;
	fr->height = height - fr->top - 36;
	fprintf(fr->f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
		"aria-label=\"%s\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
		"height=\"%.0f\">\n<text class=\"title\" x=\"%.0f\" y=\"15\">%s"
		"</text>\n",
		title, width, height, width, height, fr->left, title);
}

void svg_end(struct frame *fr)
{
	fprintf(fr->f,
		"<rect class=\"frame\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
		"height=\"%.1f\"/>\n</svg>\n",
		fr->left, fr->top, fr->width, fr->height);
}

static void y_tick(struct frame *fr, double v, const char *text)
{
	double y = frame_y(fr, v);

	fprintf(fr->f,
		"<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
		"y2=\"%.1f\"/><text class=\"tick\" x=\"%.1f\" y=\"%.1f\" "
		"text-anchor=\"end\">%s</text>\n",
		fr->left, y, fr->left + fr->width, y, fr->left - 5, y + 4,
		text);
}

/* A time in nanoseconds as people say it. */
static void time_text(double ns, char *text, size_t room)
{
	if (ns < 1e3)
		snprintf(text, room, "%g ns", ns);
	else if (ns < 1e6)
		snprintf(text, room, "%g us", ns / 1e3);
	else if (ns < 1e9)
		snprintf(text, room, "%g ms", ns / 1e6);
	else
		snprintf(text, room, "%g s", ns / 1e9);
}

void svg_y_axis(struct frame *fr, const char *unit)
{
	char text[32];

	if (fr->y_log) {
		for (double v = fr->y_min; v <= fr->y_max * 1.01; v *= 10) {
			time_text(v, text, sizeof(text));
			y_tick(fr, v, text);
		}
		return;
	}
	for (unsigned i = 0; i <= 4; i++) {
		double v = fr->y_min + (fr->y_max - fr->y_min) * i / 4;

		snprintf(text, sizeof(text), "%.4g%s", v, unit);
		y_tick(fr, v, text);
	}
}

void svg_x_label(struct frame *fr, double x, const char *text)
{
	fprintf(fr->f,
		"<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" "
		"text-anchor=\"middle\">%s</text>\n",
		frame_x(fr, x), fr->top + fr->height + 15, text);
}

void svg_legend(struct frame *fr, unsigned index, const char *text)
{
	double x = fr->left + 8 + 62 * index, y = fr->top + fr->height + 25;

	fprintf(fr->f,
		"<rect class=\"c%u\" x=\"%.1f\" y=\"%.1f\" width=\"10\" "
		"height=\"10\"/><text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%s"
		"</text>\n",
		index, x, y, x + 14, y + 9, text);
}

// SPDX-License-Identifier: MIT
/* Medians and percentiles of what was measured. */
#include "bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

void series_add(struct series *s, double v)
{
	if (s->n < ROUNDS_MAX)
		s->v[s->n++] = v;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double series_median(const struct series *s)
{
	double v[ROUNDS_MAX];

	if (!s->n)
		return 0;
	memcpy(v, s->v, sizeof(v));
	qsort(v, s->n, sizeof(v[0]), by_value);
	return s->n % 2 ? v[s->n / 2] : (v[s->n / 2 - 1] + v[s->n / 2]) / 2;
}

double series_max(const struct series *s)
{
	double max = 0;

	for (unsigned i = 0; i < s->n; i++)
		max = s->v[i] > max ? s->v[i] : max;
	return max;
}

void samples_add(struct samples *s, uint64_t ns)
{
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 4096;
		uint32_t *p = realloc(s->ns, room * sizeof(*p));

		if (!p)
			return;
		s->ns = p;
		s->room = room;
	}
	s->ns[s->n++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

struct percentiles samples_percentiles(struct samples *s)
{
	struct percentiles p = {.n = s->n};

	if (!s->n)
		return p;
	qsort(s->ns, s->n, sizeof(s->ns[0]), by_number);
	p.p50_us = s->ns[s->n / 2] / 1e3;
	p.p99_us = s->ns[s->n * 99 / 100] / 1e3;
	p.p999_us = s->ns[s->n * 999 / 1000] / 1e3;
	p.max_us = s->ns[s->n - 1] / 1e3;
	return p;
}

void samples_free(struct samples *s)
{
	free(s->ns);
	*s = (struct samples){0};
}

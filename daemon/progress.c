// SPDX-License-Identifier: MIT
/* Tells a person how far a snapshot is: a bar, or a line a second. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BAR_MS 100
#define LINE_MS 1000
#define BAR_WIDTH 24
#define PAGES_PER_MIB 256u

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void progress_start(struct progress *p, enum progress_kind kind)
{
	*p = (struct progress){.kind = kind, .begun_ms = now_ms()};
	if (kind == PROGRESS_AUTO && !isatty(STDERR_FILENO))
		p->kind = PROGRESS_NONE;
	p->shown_ms = p->begun_ms;
}

int progress_interval(const struct progress *p)
{
	switch (p->kind) {
	case PROGRESS_AUTO:
		return BAR_MS;
	case PROGRESS_PLAIN:
		return LINE_MS;
	default:
		return -1;
	}
}

static void show(struct progress *p, const struct snap_stats *st,
		 enum snap_state state, uint64_t ms)
{
	uint64_t saved = st->pages_by_fault + st->pages_by_sweep +
			 st->pages_in_pause + st->pages_absent;
	uint64_t total = st->pages_total ? st->pages_total : 1;
	uint64_t left = total - (saved < total ? saved : total);
	uint64_t rate = ms ? saved * 1000 / ms : 0; /* pages a second */
	unsigned percent = (unsigned)(saved * 100 / total);
	char bar[BAR_WIDTH + 1];
	unsigned full = percent * BAR_WIDTH / 100;

	memset(bar, '.', BAR_WIDTH);
	memset(bar, '#', full < BAR_WIDTH ? full : BAR_WIDTH);
	bar[BAR_WIDTH] = '\0';
	if (p->kind == PROGRESS_AUTO)
		fprintf(stderr, "\r[%s] ", bar);
	fprintf(stderr,
		"%3u %%, %" PRIu64 " MiB/s, %" PRIu64 " pages left, %" PRIu64
		" faults, ",
		percent, rate / PAGES_PER_MIB, left, st->faults);
	if (state == SNAP_STATE_WRITING)
		fputs("writing", stderr);
	else if (rate)
		fprintf(stderr, "%" PRIu64 " s to go", left / rate);
	else
		fputs("? s to go", stderr);
	fputs(p->kind == PROGRESS_AUTO ? "\033[K" : "\n", stderr);
	fflush(stderr);
	p->shown = p->kind == PROGRESS_AUTO;
}

void progress_tick(struct progress *p, struct snap *s)
{
	struct snap_stats st = {.size = sizeof(st)};
	uint64_t now = now_ms();
	int interval = progress_interval(p);

	if (interval < 0 || now - p->shown_ms < (uint64_t)interval)
		return;
	p->shown_ms = now;
	if (!snap_get_stats(s, &st))
		show(p, &st, snap_state(s), now - p->begun_ms);
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}

// SPDX-License-Identifier: MIT
/* No save at all: what the machine alone does to the guest. */
#include "mode.h"

#include <time.h>

static void none_take(struct shot *s)
{
	struct station *st = s->g->station;
	double whole;
	struct timespec nap;

	nap.tv_sec = (time_t)s->seconds;
	whole = (double)nap.tv_sec;
	nap.tv_nsec = (long)((s->seconds - whole) * 1e9);
	s->begin = s->resumed = ticks();
	s->begin_work = guest_work(s->g);
	poke(&st->paused_at, s->begin - s->g->clock_ahead);
	poke(&st->resumed_at, s->begin - s->g->clock_ahead);
	poke(&st->phase, PHASE_DURING);
	nanosleep(&nap, NULL);
	shot_end(s);
	s->done = s->end;
}

const struct mode mode_none = {.name = "none", .take = none_take};

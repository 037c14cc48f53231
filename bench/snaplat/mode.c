// SPDX-License-Identifier: MIT
/* The instants of a save that the guest's measurements depend on, which are
 * told the guest by its own clock. */
#include "mode.h"

void shot_pause(struct shot *s)
{
	struct station *st = s->g->station;

	s->begin = ticks();
	s->begin_work = guest_work(s->g);
	/* In this order: see probe_touch(). */
	__atomic_store_n(&st->paused_at, s->begin - s->g->clock_ahead,
			 __ATOMIC_SEQ_CST);
	__atomic_store_n(&st->resumed_at, UINT64_MAX, __ATOMIC_SEQ_CST);
	__atomic_store_n(&st->phase, PHASE_DURING, __ATOMIC_SEQ_CST);
	s->g->ops->pause(s->g);
}

void shot_resume(struct shot *s)
{
	struct station *st = s->g->station;

	s->resumed = ticks();
	__atomic_store_n(&st->resumed_at, s->resumed - s->g->clock_ahead,
			 __ATOMIC_SEQ_CST);
	s->g->ops->resume(s->g);
}

void shot_end(struct shot *s)
{
	struct station *st = s->g->station;

	s->end = ticks();
	s->end_work = guest_work(s->g);
	__atomic_store_n(&st->ended_at, s->end - s->g->clock_ahead,
			 __ATOMIC_SEQ_CST);
	__atomic_store_n(&st->phase, PHASE_AFTER, __ATOMIC_SEQ_CST);
}

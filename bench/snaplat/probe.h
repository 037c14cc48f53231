/* SPDX-License-Identifier: MIT */
/*
 * The probe: touches one byte of a random page at each beat of a clock, reading
 * and writing in turn, and rests in between.
 *
 * How it works.  What has to be known of a touch is how long the memory made
 * the guest wait.  So it counts from the touch's own beginning, and when an
 * earlier touch or a pause of the whole guest was what held it up, from when it
 * was due: no omission of those that could not be made meanwhile.  A beat
 * missed because the host woke us up late is the scheduler's doing; it counts
 * in `response` alone, where everything counts from when it was due.
 *
 * Freestanding, as a guest without a C library has the same probe.
 */
#ifndef SNAPLAT_PROBE_H
#define SNAPLAT_PROBE_H

#include "station.h"

struct probe {
	uint64_t due;	/* of the next touch */
	uint64_t ended; /* when the last one was over */
	uint64_t random;
};

static inline void probe_log(struct station *s, uint64_t due, uint64_t ns,
			     enum touch touch)
{
	uint32_t n = s->marks_n;

	if (!peek(&s->marking) || n >= MARKS_MAX)
		return;
	s->marks[n].due = due;
	s->marks[n].ns = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
	s->marks[n].touch = touch;
	poke(&s->marks_n, n + 1);
}

static inline void probe_account(struct station *s, enum phase phase,
				 enum touch touch, uint64_t due, uint64_t ns)
{
	hist_record(&s->touch[phase][touch], ns);
	if (phase == PHASE_DURING && due >= peek(&s->resumed_at))
		hist_record(&s->running[touch], ns);
	probe_log(s, due, ns, touch);
}

static inline int probe_in_pause(const struct station *s, uint64_t due)
{
	return due >= peek(&s->paused_at) && due < peek(&s->resumed_at);
}

/* Beats that passed while nothing but sleep held us up. */
static inline void probe_skip(struct probe *p, struct station *s, uint64_t now)
{
	while (p->due + s->period <= now && !probe_in_pause(s, p->due)) {
		if (station_phase(s, p->due) == PHASE_DURING)
			hist_record(&s->response,
				    ticks_to_ns(now - p->due, s->scale));
		p->due += s->period;
	}
}

/** One touch; to be called when p->due has come. */
__attribute__((no_sanitize("thread"))) static inline void
probe_touch(struct probe *p, struct station *s)
{
	enum phase phase;
	uint64_t r = pattern_random(&p->random);
	volatile uint8_t *byte =
		(volatile uint8_t *)(uintptr_t)(s->ram +
						(r >> 8) % s->pages *
							PATTERN_PAGE +
						64 * 63);
	enum touch touch = peek(&s->touches) & 1;
	uint64_t from = ticks();

	if (p->ended <= p->due)
		probe_skip(p, s, from);
	if (p->ended > p->due || probe_in_pause(s, p->due))
		from = p->due;
	phase = station_phase(s, p->due);
	if (touch == TOUCH_WRITE)
		*byte = (uint8_t)r;
	else
		(void)*byte;
	p->ended = ticks();
	probe_account(s, phase, touch, p->due,
		      ticks_to_ns(p->ended - from, s->scale));
	if (phase == PHASE_DURING)
		hist_record(&s->response,
			    ticks_to_ns(p->ended - p->due, s->scale));
	poke(&s->touches, s->touches + 1);
	p->due += s->period;
}

#endif

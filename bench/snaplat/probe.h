/* SPDX-License-Identifier: MIT */
/*
 * The probe: touches one byte of a random page at each beat of a clock, reading
 * and writing in turn, and rests in between.
 *
 * How it works.  What has to be known of a touch is how long the memory made
 * the guest wait.  So it counts from the touch's own beginning, and if a pause
 * of the whole guest was what held it up, from when it was due.  Beats that
 * could not be kept because a touch or a pause lasted are counted from when
 * they were due to when it was over, without touching anything: no coordinated
 * omission, and no queue of touches to make up for either.  A touch that waits
 * holds up touches of its own kind only; reads are not to look slow because
 * the thread that makes them also writes.
 *
 * A beat missed because the host woke us up late is the scheduler's doing; it
 * counts in `response` alone, where everything counts from when it was due.
 *
 * Freestanding, as a guest without a C library has the same probe.
 */
#ifndef SNAPLAT_PROBE_H
#define SNAPLAT_PROBE_H

#include "station.h"

struct probe {
	uint64_t due; /* of the next touch */
	uint64_t beat;
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

static inline int probe_in_pause(const struct station *s, uint64_t due)
{
	return due >= peek(&s->paused_at) && due < peek(&s->resumed_at);
}

static inline enum touch probe_kind(const struct probe *p)
{
	return p->beat & 1 ? TOUCH_WRITE : TOUCH_READ;
}

static inline void probe_next(struct probe *p, const struct station *s)
{
	p->beat++;
	p->due += s->period;
}

static inline void probe_account(struct station *s, const struct probe *p,
				 uint64_t from, uint64_t to)
{
	enum phase phase = station_phase(s, p->due);
	uint64_t ns = ticks_to_ns(to - from, s->scale);

	hist_record(&s->touch[phase][probe_kind(p)], ns);
	if (phase == PHASE_DURING && p->due >= peek(&s->resumed_at))
		hist_record(&s->running[probe_kind(p)], ns);
	probe_log(s, p->due, ns, probe_kind(p));
}

static inline void probe_respond(struct station *s, const struct probe *p,
				 uint64_t to)
{
	if (station_phase(s, p->due) == PHASE_DURING)
		hist_record(&s->response, ticks_to_ns(to - p->due, s->scale));
}

/* Beats that passed while nothing but sleep held us up. */
static inline void probe_skip(struct probe *p, struct station *s, uint64_t now)
{
	while (p->due + s->period <= now && !probe_in_pause(s, p->due)) {
		probe_respond(s, p, now);
		probe_next(p, s);
	}
}

/* Beats that passed while a touch of @kind, or a pause, lasted. */
static inline void probe_missed(struct probe *p, struct station *s,
				enum touch kind, uint64_t now)
{
	while (p->due <= now) {
		if (probe_kind(p) == kind || probe_in_pause(s, p->due))
			probe_account(s, p, p->due, now);
		probe_respond(s, p, now);
		probe_next(p, s);
	}
}

/** One touch; to be called when p->due has come. */
__attribute__((no_sanitize("thread"))) static inline void
probe_touch(struct probe *p, struct station *s)
{
	uint64_t r = pattern_random(&p->random), from = ticks(), to;
	volatile uint8_t *byte =
		(volatile uint8_t *)(uintptr_t)(s->ram +
						(r >> 8) % s->pages *
							PATTERN_PAGE +
						64 * 63);
	enum touch kind;

	probe_skip(p, s, from);
	if (probe_in_pause(s, p->due))
		from = p->due;
	kind = probe_kind(p);
	if (kind == TOUCH_WRITE)
		*byte = (uint8_t)r;
	else
		(void)*byte;
	to = ticks();
	probe_account(s, p, from, to);
	probe_respond(s, p, to);
	probe_next(p, s);
	probe_missed(p, s, kind, to);
	poke(&s->touches, s->touches + 1);
}

#endif

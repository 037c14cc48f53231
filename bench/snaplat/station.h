/* SPDX-License-Identifier: MIT */
/*
 * What a guest and its observer share: orders one way, measurements the other.
 * Not part of the RAM that is saved.  Time stamps are the guest's ticks.
 */
#ifndef SNAPLAT_STATION_H
#define SNAPLAT_STATION_H

#include "hist.h"
#include "pattern.h"
#include "ticks.h"

/** Which part of a round it is; set from outside. */
enum phase { PHASE_OFF, PHASE_BEFORE, PHASE_DURING, PHASE_AFTER, PHASES };

/** The kinds of touch. */
enum touch { TOUCH_READ, TOUCH_WRITE, TOUCHES };

/** One touch of the probe, for the plot over time. */
struct mark {
	uint64_t due;
	uint32_t ns;
	uint32_t touch;
};

#define MARKS_MAX 65536u

struct station {
	/* Orders. */
	uint32_t phase;
	uint32_t marking;    /* log every touch */
	uint64_t scale;	     /* nanoseconds a tick, 32.32 */
	uint64_t period;     /* of the probe, ticks */
	uint64_t think;	     /* between two steps of the work, ticks */
	uint64_t paused_at;  /* when the last pause began ... */
	uint64_t resumed_at; /* ... and ended; ~0 while it lasts */
	uint64_t ended_at;   /* when the last save left the guest alone */
	uint64_t ram, pages; /* the guest's address of its RAM */
	uint32_t pattern;    /* enum pattern */
	uint32_t ending;

	/* Measurements. */
	uint64_t heartbeat;	/* a flat guest's clock, now and then */
	uint64_t work;		/* steps made */
	uint64_t touches;	/* of the probe */
	uint64_t stall[PHASES]; /* longest time between two steps, ticks */
	uint64_t exec_max;	/* pattern exec: the longest write, ticks */

	/* From the touch's beginning, or from when it was due if an earlier
	 * touch or a pause of the guest held it up. */
	struct hist touch[PHASES][TOUCHES];
	/* During, of those that were due when the guest ran again. */
	struct hist running[TOUCHES];
	/* During, always from when it was due: late wake-ups count. */
	struct hist response;

	uint32_t marks_n;
	struct mark marks[MARKS_MAX];
};

/** The phase that something belongs to which began, or was due, at @since:
 * what a save held up until after its end is the save's. */
static inline enum phase station_phase(const struct station *s, uint64_t since)
{
	if (since < peek(&s->ended_at))
		return PHASE_DURING;
	return (enum phase)(peek(&s->phase) % PHASES);
}

/** Two steps of the work, at @last and at @now. */
static inline void station_stall(struct station *s, uint64_t last, uint64_t now)
{
	enum phase phase = station_phase(s, last);

	if (now - last > peek(&s->stall[phase]))
		poke(&s->stall[phase], now - last);
}

#endif

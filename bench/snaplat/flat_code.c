// SPDX-License-Identifier: MIT
/*
 * The program of the flat KVM guest: works, probes and counts by itself.
 *
 * Compiled without a C library and linked to run at FLAT_CODE.  There is one
 * virtual CPU; the probe has its turn whenever its beat has come, between two
 * steps of the work.
 */
#include "flat.h"
#include "probe.h"

/* The first bytes of the program. */
__asm__(".text\n.globl _start\n_start: jmp flat_main\n");

void flat_main(struct station *s);

void flat_main(struct station *s)
{
	struct pattern_state state;
	struct probe probe;
	uint64_t now = ticks(), last = now, step = now;

	state.ram = s->ram;
	state.pages = s->pages;
	state.n = 0;
	state.random = 88172645463325252u;
	state.exec_max = 0;
	probe.due = now;
	probe.beat = 0;
	probe.random = 0xdeadbeefcafef00du;
	for (;;) {
		now = ticks();
		poke(&s->heartbeat, now);
		if (now >= probe.due)
			probe_touch(&probe, s);
		if (s->pattern == PATTERN_IDLE || now < step)
			continue;
		pattern_step(&state, (enum pattern)s->pattern);
		now = ticks();
		station_stall(s, last, now);
		last = now;
		step = now + s->think;
		poke(&s->work, s->work + 1);
		poke(&s->exec_max, state.exec_max);
	}
}

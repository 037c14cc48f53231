/* SPDX-License-Identifier: MIT */
/* The guest's stand-in: a writer that never rests, and a paced probe. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "bench.h"

struct load;

/**
 * Make the threads of @kind over the RAM; they wait until load_go().  @probe
 * receives the time of each paced write that met a write-protected page; NULL:
 * no probe.  LOAD_IDLE without a probe is no thread at all.
 */
struct load *load_start(enum load_kind kind, const struct ram *ram,
			struct samples *probe);
void load_go(struct load *l);
void load_stop(struct load *l);

#endif

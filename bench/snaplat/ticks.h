/* SPDX-License-Identifier: MIT */
/* The time stamp counter, and what is shared through plain memory. */
#ifndef SNAPLAT_TICKS_H
#define SNAPLAT_TICKS_H

#include <stdint.h>

/* Between threads, and between the host and a guest that shares its memory:
 * each value stands for itself, so no order is needed. */
#define peek(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define poke(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/** Ticks since some moment; every kind of guest can read it without a call. */
static inline uint64_t ticks(void)
{
	return __builtin_ia32_rdtsc();
}

/** @scale is nanoseconds a tick in 32.32 fixed point. */
static inline uint64_t ticks_to_ns(uint64_t n, uint64_t scale)
{
	return (uint64_t)((unsigned __int128)n * scale >> 32);
}

static inline uint64_t ns_to_ticks(uint64_t ns, uint64_t scale)
{
	return (ns << 32) / scale;
}

#endif

/* SPDX-License-Identifier: MIT */
/* Counters and a latency histogram that any thread may add to. */
#ifndef SNAP_STATS_H
#define SNAP_STATS_H

#include <stdatomic.h>
#include <stdint.h>

/* Log-linear buckets: 32 to every power of two, so a value is known to 3 %. */
#define HISTOGRAM_SUB_BITS 5
#define HISTOGRAM_SUB (1u << HISTOGRAM_SUB_BITS)
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB)

struct histogram {
	_Atomic uint64_t count;
	_Atomic uint64_t max;
	_Atomic uint64_t sum;
	_Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);

/** The value that the share @quantile (0..1) of all are at or below, rounded up to its bucket's
 * end but never above the largest; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double quantile);

/** How many values are at or below @bound, to 3 % of it. */
uint64_t histogram_below(const struct histogram *h, uint64_t bound);

/** What the engine counts; each name as in struct snap_stats. */
struct stats {
	_Atomic uint64_t pages_by_fault;
	_Atomic uint64_t pages_by_sweep;
	_Atomic uint64_t pages_in_pause;
	_Atomic uint64_t pages_absent;
	_Atomic uint64_t pages_audited;
	_Atomic uint64_t faults;
	_Atomic uint64_t protect_ioctls;
	_Atomic uint64_t unprotect_ioctls;
	_Atomic uint64_t unprotect_pages;
	_Atomic uint64_t unprotect_eagain;
	_Atomic uint64_t discards;
	_Atomic uint64_t early_faults;
	_Atomic uint64_t prearm_rounds;
	_Atomic uint64_t pages_armed_in_pause;
	_Atomic uint64_t syscalls;
	struct histogram fault_ns;
};

static inline void stats_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline uint64_t stats_get(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif

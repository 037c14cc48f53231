/* SPDX-License-Identifier: MIT */
/*
 * A histogram of latencies whose buckets are 3 % wide whatever the size of the
 * value, in the manner of HdrHistogram.
 *
 * Values below 64 have a bucket each.  Above, each power of two has 32.  The
 * recording side is in this header, as guests without a C library record too.
 */
#ifndef SNAPLAT_HIST_H
#define SNAPLAT_HIST_H

#include <stdint.h>

#define HIST_SUB 32u
#define HIST_POWERS 36u /* the last one ends at 2^41 ns, half an hour */
#define HIST_BUCKETS (2 * HIST_SUB + (HIST_POWERS - 1) * HIST_SUB)

struct hist {
	uint64_t n, max;
	uint64_t counts[HIST_BUCKETS];
};

static inline unsigned hist_bucket(uint64_t v)
{
	unsigned power;

	if (v < 2 * HIST_SUB)
		return (unsigned)v;
	power = 63u - (unsigned)__builtin_clzll(v) - 5u; /* 1, 2, ... */
	if (power > HIST_POWERS - 1)
		return HIST_BUCKETS - 1;
	return power * HIST_SUB + (unsigned)(v >> power);
}

static inline void hist_record(struct hist *h, uint64_t v)
{
	h->counts[hist_bucket(v)]++;
	h->n++;
	if (v > h->max)
		h->max = v;
}

/** The largest value that falls into bucket @i. */
uint64_t hist_bucket_end(unsigned i);

void hist_add(struct hist *to, const struct hist *from);

/** The least value that @share (0..1) of the values do not exceed, to 3 %, at
 * most the maximum.  0 when there are none. */
uint64_t hist_quantile(const struct hist *h, double share);

#endif

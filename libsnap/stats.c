// SPDX-License-Identifier: MIT
/* Counters and a latency histogram that any thread may add to. */
#include "stats.h"

static unsigned bucket_of(uint64_t v)
{
	unsigned shift;

	if (v < HISTOGRAM_SUB)
		return (unsigned)v;
	shift = 63u - (unsigned)__builtin_clzll(v) - HISTOGRAM_SUB_BITS;
	return (shift + 1) * HISTOGRAM_SUB +
	       (unsigned)((v >> shift) & (HISTOGRAM_SUB - 1));
}

/* The largest value that falls into bucket @b. */
static uint64_t bucket_end(unsigned b)
{
	unsigned shift;

	if (b < HISTOGRAM_SUB)
		return b;
	shift = b / HISTOGRAM_SUB - 1;
	return (((uint64_t)(b % HISTOGRAM_SUB + HISTOGRAM_SUB + 1)) << shift) -
	       1;
}

void histogram_add(struct histogram *h, uint64_t value)
{
	uint64_t max = stats_get(&h->max);

	stats_add(&h->buckets[bucket_of(value)], 1);
	stats_add(&h->count, 1);
	stats_add(&h->sum, value);
	while (value > max &&
	       !atomic_compare_exchange_weak(&h->max, &max, value))
		;
}

uint64_t histogram_quantile(const struct histogram *h, double quantile)
{
	uint64_t count = stats_get(&h->count), seen = 0, max, end;
	uint64_t rank = (uint64_t)(quantile * (double)count);
	unsigned b;

	if (!count)
		return 0;
	if (rank >= count)
		rank = count - 1;
	max = stats_get(&h->max);
	for (b = 0; b < HISTOGRAM_BUCKETS; b++) {
		seen += stats_get(&h->buckets[b]);
		if (seen > rank)
			break;
	}
	if (b == HISTOGRAM_BUCKETS)
		return max;
	end = bucket_end(b);
	return end < max ? end : max;
}

uint64_t histogram_below(const struct histogram *h, uint64_t bound)
{
	uint64_t n = 0;
	unsigned b;

	for (b = 0; b < HISTOGRAM_BUCKETS && bucket_end(b) <= bound; b++)
		n += stats_get(&h->buckets[b]);
	return n;
}

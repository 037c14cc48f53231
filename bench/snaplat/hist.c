// SPDX-License-Identifier: MIT
/* The reading side of the histogram. */
#include "hist.h"

#include <math.h>

uint64_t hist_bucket_end(unsigned i)
{
	unsigned power = i / HIST_SUB;

	if (i < 2 * HIST_SUB)
		return i;
	power--;
	return ((uint64_t)(i - power * HIST_SUB + 1) << power) - 1;
}

void hist_add(struct hist *to, const struct hist *from)
{
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		to->counts[i] += from->counts[i];
	to->n += from->n;
	if (from->max > to->max)
		to->max = from->max;
}

uint64_t hist_quantile(const struct hist *h, double share)
{
	uint64_t want = (uint64_t)ceil(share * (double)h->n), seen = 0;

	if (!h->n)
		return 0;
	if (want < 1)
		want = 1;
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		uint64_t end = hist_bucket_end(i);

		seen += h->counts[i];
		/* The last bucket has no end of its own. */
		if (seen >= want && i < HIST_BUCKETS - 1)
			return end < h->max ? end : h->max;
	}
	return h->max;
}

// SPDX-License-Identifier: MIT
/* Turns saved pages into few, aligned unprotect ranges. */
#include "coalesce.h"

struct page_run coalesce_next(const struct pagestate *ps, uint64_t from,
			      uint64_t end)
{
	uint64_t first = pagestate_find(ps, from, end, PAGE_SAVED);

	return (struct page_run){first,
				 pagestate_run(ps, first, end, PAGE_SAVED)};
}

struct page_run coalesce_around(const struct region *r, uint64_t page)
{
	struct page_run block = region_block(r, page);
	uint64_t lo = page, hi = page + 1;

	while (lo > block.first && pagestate_get(&r->ps, lo - 1) == PAGE_SAVED)
		lo--;
	hi += pagestate_run(&r->ps, hi, block.first + block.count, PAGE_SAVED);
	return (struct page_run){lo, hi - lo};
}

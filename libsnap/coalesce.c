// SPDX-License-Identifier: MIT
/* Turns saved pages into few, aligned unprotect ranges. */
#include "coalesce.h"

static bool is_huge(const struct region *r, uint64_t page)
{
	return region_is_hugetlb(r) ||
	       atomic_load_explicit(region_block_kind(r, page),
				    memory_order_relaxed) == BLOCK_HUGE;
}

struct page_run coalesce_next(const struct region *r, uint64_t from,
			      uint64_t end)
{
	struct page_run block;
	uint64_t first = from, stop;

	while ((first = pagestate_find(&r->ps, first, end, PAGE_SAVED)) < end) {
		block = region_block(r, first);
		stop = min_u64(block.first + block.count, end);
		if (!is_huge(r, first))
			return (struct page_run){
				first,
				pagestate_run(&r->ps, first, stop, PAGE_SAVED)};
		if (pagestate_all_saved(&r->ps, block.first, block.count))
			return block;
		first = stop;
	}
	return (struct page_run){end, 0};
}

struct page_run coalesce_around(const struct region *r, uint64_t page)
{
	struct page_run block = region_block(r, page);
	uint64_t lo = page, hi = page + 1;

	if (is_huge(r, page))
		return block;
	while (lo > block.first && pagestate_get(&r->ps, lo - 1) == PAGE_SAVED)
		lo--;
	hi += pagestate_run(&r->ps, hi, block.first + block.count, PAGE_SAVED);
	return (struct page_run){lo, hi - lo};
}

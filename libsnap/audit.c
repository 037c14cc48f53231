// SPDX-License-Identifier: MIT
/* Proof by sample: pages checksummed in the pause, compared when copied. */
#include "audit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#include "format.h"
#include "residency.h"
#include "target.h"

struct entry {
	uint64_t page;
	uint64_t checksum;
	uint16_t region;
};

struct audit {
	unsigned percent;
	uint64_t state;	       /* of the generator */
	struct entry *entries; /* by region and page */
	size_t filled, room;
	_Atomic size_t count; /* released when all are there: audit_check() */
	uint8_t page[PAGE_BYTES];
	struct residency_run runs[BLOCK_PAGES];
};

int audit_create(struct audit **out, unsigned percent)
{
	struct audit *a;

	*out = NULL;
	if (!percent)
		return 0;
	a = calloc(1, sizeof(*a));
	if (!a)
		return error_nomem("the audit");
	a->percent = percent;
	if (getrandom(&a->state, sizeof(a->state), 0) < 0 || !a->state)
		a->state = 1;
	*out = a;
	return 0;
}

void audit_destroy(struct audit *a)
{
	if (a)
		free(a->entries);
	free(a);
}

static bool is_chosen(struct audit *a)
{
	a->state ^= a->state << 13;
	a->state ^= a->state >> 7;
	a->state ^= a->state << 17;
	return a->state % 100 < a->percent;
}

static int take_page(struct audit *a, struct guest *g, const struct region *r,
		     uint64_t page)
{
	struct entry *more;
	int err;

	if (a->filled == a->room) {
		size_t room = a->room ? 2 * a->room : 1024;

		more = realloc(a->entries, room * sizeof(*more));
		if (!more)
			return error_nomem("the audit");
		a->entries = more;
		a->room = room;
	}
	err = target_read(&g->target, r, page, 1, a->page);
	if (err)
		return error_sys(err, SNAP_FAILURE_LOST,
				 "region %s cannot be read at 0x%" PRIx64,
				 r->name, region_addr(r, page));
	a->entries[a->filled++] = (struct entry){
		.region = r->index,
		.page = page,
		.checksum = format_checksum(a->page, PAGE_BYTES),
	};
	return 0;
}

static int take_run(struct audit *a, struct guest *g, const struct region *r,
		    uint64_t first, uint64_t end)
{
	int err = 0;

	for (; first < end && !err; first++)
		if (is_chosen(a))
			err = take_page(a, g, r, first);
	return err;
}

/* Private memory: what the page map has.  A touch of the rest would fill it. */
static int take_private(struct audit *a, struct guest *g,
			const struct region *r)
{
	uint64_t at, end;
	int n, i, err = 0;

	for (at = r->start; at < region_end(r) && !err; at = end) {
		end = min_u64(align_up(at + 1, BLOCK_BYTES), region_end(r));
		n = residency_runs(&g->residency, at, end, a->runs);
		if (n < 0)
			return guest_unreadable(g, n);
		for (i = 0; i < n && !err; i++)
			err = take_run(
				a, g, r,
				(a->runs[i].start - r->start) >> PAGE_SHIFT,
				(a->runs[i].end - r->start) >> PAGE_SHIFT);
	}
	return err;
}

/* Shared memory: what its file has. */
static int take_shared(struct audit *a, struct guest *g, const struct region *r)
{
	uint64_t page = 0, pages = region_pages(r);
	struct page_run data;
	int err = 0;

	while (page < pages && !err) {
		data = target_data(&g->target, r, page, pages);
		if (!data.count)
			break;
		page = data.first + data.count;
		err = take_run(a, g, r, data.first, page);
	}
	return err;
}

int audit_take(struct audit *a, struct guest *g)
{
	size_t i;
	int err = 0;

	for (i = 0; a && i < g->regions.count && !err; i++) {
		const struct region *r = g->regions.by_index[i];

		if (r->kind == REGION_ANON || r->kind == REGION_HUGETLB)
			err = take_private(a, g, r);
		else if (r->kind == REGION_SHARED && r->fd >= 0)
			err = take_shared(a, g, r);
	}
	if (a && !err)
		atomic_store_explicit(&a->count, a->filled,
				      memory_order_release);
	return err;
}

/* The first entry at or behind a page. */
static size_t find(const struct audit *a, size_t count, uint16_t region,
		   uint64_t page)
{
	size_t lo = 0, hi = count, mid;

	while (lo < hi) {
		const struct entry *e;

		mid = lo + (hi - lo) / 2;
		e = &a->entries[mid];
		if (e->region < region ||
		    (e->region == region && e->page < page))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

int audit_check(struct guest *g, const struct region *r, struct page_run run,
		const void *copy)
{
	const struct audit *a = g->audit;
	const uint8_t *bytes = copy;
	size_t i, count;

	if (!a)
		return 0;
	/* Pairs with the release in audit_take(): the fault thread is woken by
	 * the kernel, of which the language knows nothing. */
	count = atomic_load_explicit(&a->count, memory_order_acquire);
	for (i = find(a, count, r->index, run.first); i < count; i++) {
		const struct entry *e = &a->entries[i];

		if (e->region != r->index || e->page >= run.first + run.count)
			break;
		stats_add(&g->stats.pages_audited, 1);
		if (format_checksum(bytes + (e->page - run.first) * PAGE_BYTES,
				    PAGE_BYTES) != e->checksum)
			return error_set(-EILSEQ, SNAP_FAILURE_LOST,
					 "region %s was written to unseen at "
					 "0x%" PRIx64 ": its copy is not what "
					 "was there in the pause",
					 r->name, region_addr(r, e->page));
	}
	return 0;
}

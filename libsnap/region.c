// SPDX-License-Identifier: MIT
/* The guest RAM table: add, reject overlap, address -> region. */
#include "region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

static int check_spec(const struct snap_region *spec, const char *name)
{
	uint64_t start = (uint64_t)(uintptr_t)spec->addr;

	if (!*name || strlen(name) > SNAP_NAME_MAX)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "a region's name has 1 to %d bytes",
				 SNAP_NAME_MAX);
	if (!spec->length)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "region %s has size 0", name);
	if (!is_aligned(start, PAGE_BYTES) ||
	    !is_aligned(spec->length, PAGE_BYTES))
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "region %s (0x%" PRIx64 ", %zu bytes) is not "
				 "aligned to pages of %zu bytes",
				 name, start, spec->length, PAGE_BYTES);
	if (start + spec->length < start)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "region %s wraps around the address space",
				 name);
	return 0;
}

static int check_against(const struct region_table *t, const char *name,
			 uint64_t start, uint64_t end)
{
	size_t i;

	for (i = 0; i < t->count; i++) {
		const struct region *r = t->by_addr[i];

		if (!strcmp(r->name, name))
			return error_set(-EINVAL, SNAP_FAILURE_USAGE,
					 "a region named %s is there already",
					 name);
		if (start < region_end(r) && r->start < end)
			return error_set(-EEXIST, SNAP_FAILURE_USAGE,
					 "region %s (0x%" PRIx64 "-0x%" PRIx64
					 ") overlaps region %s (0x%" PRIx64
					 "-0x%" PRIx64 ")",
					 name, start, end, r->name, r->start,
					 region_end(r));
	}
	return 0;
}

/* Room for one more in both arrays. */
static int grow(struct region_table *t)
{
	size_t bytes = (t->count + 1) * sizeof(struct region *);
	struct region **a;

	a = realloc(t->by_index, bytes);
	if (!a)
		return -ENOMEM;
	t->by_index = a;
	a = realloc(t->by_addr, bytes);
	if (!a)
		return -ENOMEM;
	t->by_addr = a;
	return 0;
}

static void insert(struct region_table *t, struct region *r)
{
	size_t i = t->count;

	while (i > 0 && t->by_addr[i - 1]->start > r->start) {
		t->by_addr[i] = t->by_addr[i - 1];
		i--;
	}
	t->by_addr[i] = r;
	t->by_index[t->count++] = r;
}

int region_add(struct region_table *t, const struct snap_region *spec)
{
	uint64_t start = (uint64_t)(uintptr_t)spec->addr;
	char made[SNAP_NAME_MAX + 1];
	const char *name = spec->name;
	struct region *r;
	int err;

	if (t->count == REGIONS_MAX)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "more than %u regions", REGIONS_MAX);
	if (!name) {
		snprintf(made, sizeof(made), "ram%zu", t->count);
		name = made;
	}
	err = check_spec(spec, name);
	if (!err)
		err = check_against(t, name, start, start + spec->length);
	if (err)
		return err;
	r = calloc(1, sizeof(*r));
	if (!r || grow(t)) {
		free(r);
		return error_nomem("a region");
	}
	strcpy(r->name, name);
	r->start = start;
	r->length = spec->length;
	r->guest_addr = spec->guest_addr;
	r->index = (uint16_t)t->count;
	r->page_size = PAGE_BYTES;
	r->fd = -1;
	insert(t, r);
	return 0;
}

void region_table_free(struct region_table *t)
{
	size_t i;

	for (i = 0; i < t->count; i++) {
		pagestate_free(&t->by_index[i]->ps);
		free((void *)t->by_index[i]->blocks);
		free((void *)t->by_index[i]->heat);
		free(t->by_index[i]);
	}
	free(t->by_index);
	free(t->by_addr);
	memset(t, 0, sizeof(*t));
}

struct region *region_from(const struct region_table *t, uint64_t addr)
{
	size_t lo = 0, hi = t->count, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (region_end(t->by_addr[mid]) <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < t->count ? t->by_addr[lo] : NULL;
}

struct region *region_find(const struct region_table *t, uint64_t addr)
{
	struct region *r = region_from(t, addr);

	return r && r->start <= addr ? r : NULL;
}

struct page_run region_block(const struct region *r, uint64_t page)
{
	uint64_t lo = align_down(region_addr(r, page), BLOCK_BYTES);
	uint64_t hi = min_u64(lo + BLOCK_BYTES, region_end(r));

	lo = max_u64(lo, r->start);
	return (struct page_run){(lo - r->start) >> PAGE_SHIFT,
				 (hi - lo) >> PAGE_SHIFT};
}

// SPDX-License-Identifier: MIT
/* Where every page of an image is: collect extents, prove that they cover each
 * page exactly once, look pages up. */
#include "image_extents.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "util/util.h"

#define EXTENTS_STEP 4096u

static int grow(struct image_extents *x, uint32_t n)
{
	struct image_extent *grown;
	uint64_t room = (uint64_t)x->room + x->room / 2 + EXTENTS_STEP;

	if (n <= x->room - x->count)
		return 0;
	if (room > UINT32_MAX)
		return error_nomem("more than 2^32 extents of an image");
	grown = realloc(x->items, room * sizeof(*grown));
	if (!grown)
		return error_nomem("the extents of the image");
	x->items = grown;
	x->room = (uint32_t)room;
	return 0;
}

static void count_pages(struct format_totals *t, const struct frame_extent *e)
{
	t->pages_total += e->count;
	if (e->kind == FRAME_ABSENT)
		t->pages_absent += e->count;
	else if (e->kind == FRAME_ZERO)
		t->pages_zero += e->count;
	else
		t->pages_data += e->count;
}

int image_extents_add(struct image_extents *x, const struct image_head *h,
		      const struct frame_extent *extents, uint32_t n,
		      const struct image_place *place)
{
	uint32_t i, payload_page = 0;
	uint64_t pages;
	int err = grow(x, n);

	for (i = 0; !err && i < n; i++) {
		const struct frame_extent *e = &extents[i];

		if (e->region >= h->fixed.region_count)
			return image_damaged(place->path, place->at,
					     "a frame names region %u of %u",
					     e->region, h->fixed.region_count);
		pages = h->regions[e->region].length >> PAGE_SHIFT;
		if (e->first_page > pages || e->count > pages - e->first_page)
			return image_damaged(place->path, place->at,
					     "a frame has pages behind the end "
					     "of region %s",
					     h->regions[e->region].name);
		x->items[x->count++] = (struct image_extent){
			.first_page = e->first_page,
			.frame_at = place->at,
			.count = e->count,
			.frame = place->frame,
			.payload_page = payload_page,
			.region = e->region,
			.kind = e->kind,
		};
		count_pages(&x->totals, e);
		if (e->kind == FRAME_DATA)
			payload_page += e->count;
	}
	return err;
}

static int by_place(const void *a, const void *b, void *items)
{
	const struct image_extent *x = items, *p, *q;

	p = &x[*(const uint32_t *)a];
	q = &x[*(const uint32_t *)b];
	if (p->region != q->region)
		return p->region < q->region ? -1 : 1;
	if (p->first_page != q->first_page)
		return p->first_page < q->first_page ? -1 : 1;
	return 0;
}

static int sort(struct image_extents *x, uint32_t regions)
{
	uint32_t i, region = 0;

	x->order = malloc(((size_t)x->count + 1) * sizeof(*x->order));
	x->first = malloc(((size_t)regions + 1) * sizeof(*x->first));
	if (!x->order || !x->first)
		return error_nomem("the extents of the image");
	for (i = 0; i < x->count; i++)
		x->order[i] = i;
	if (x->count)
		qsort_r(x->order, x->count, sizeof(*x->order), by_place,
			x->items);
	for (i = 0; i < x->count; i++)
		while (region <= x->items[x->order[i]].region)
			x->first[region++] = i;
	while (region <= regions)
		x->first[region++] = x->count;
	return 0;
}

static int check_region(const struct image_extents *x,
			const struct image_head *h, uint32_t region,
			const char *path, uint64_t end)
{
	const struct format_region *r = &h->regions[region];
	uint64_t next = 0;
	uint32_t i;

	for (i = x->first[region]; i < x->first[region + 1]; i++) {
		const struct image_extent *e = &x->items[x->order[i]];

		if (e->first_page < next)
			return image_damaged(path, e->frame_at,
					     "page %" PRIu64 " of region %s is "
					     "in the image twice",
					     e->first_page, r->name);
		if (e->first_page > next)
			break;
		next += e->count;
	}
	if (next != r->length >> PAGE_SHIFT)
		return image_damaged(path, end,
				     "page %" PRIu64 " of region %s is missing",
				     next, r->name);
	return 0;
}

int image_extents_finish(struct image_extents *x, const struct image_head *h,
			 const char *path, uint64_t end)
{
	uint32_t region;
	int err = sort(x, h->fixed.region_count);

	for (region = 0; !err && region < h->fixed.region_count; region++)
		err = check_region(x, h, region, path, end);
	return err;
}

uint32_t image_extents_find(const struct image_extents *x, uint32_t region,
			    uint64_t page)
{
	uint32_t low = x->first[region], high = x->first[region + 1], mid;

	/* The last extent that does not begin behind the page. */
	while (high - low > 1) {
		mid = low + (high - low) / 2;
		if (x->items[x->order[mid]].first_page <= page)
			low = mid;
		else
			high = mid;
	}
	return low;
}

void image_extents_free(struct image_extents *x)
{
	free(x->items);
	free(x->order);
	free(x->first);
	memset(x, 0, sizeof(*x));
}

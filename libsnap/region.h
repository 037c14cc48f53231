/* SPDX-License-Identifier: MIT */
/* The guest RAM table: add, reject overlap, address -> region. */
#ifndef SNAP_REGION_H
#define SNAP_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libsnap.h"
#include "pagestate.h"
#include "util/util.h"

#define REGIONS_MAX 65535u /* the image numbers them with 16 bits */

enum region_kind {
	REGION_ANON,	/* private anonymous, small or transparent huge pages */
	REGION_SHARED,	/* memfd, shm, MAP_SHARED anonymous */
	REGION_HUGETLB, /* private hugetlb */
	REGION_HUGETLB_SHARED,
	REGION_COPIED, /* private of a file: is copied in the pause */
};

/** What a 2 MiB block of an anonymous region is mapped with. */
enum block_kind {
	BLOCK_UNKNOWN = 0,
	BLOCK_SMALL = 1,
	BLOCK_HUGE = 2,
};

struct region {
	char name[SNAP_NAME_MAX + 1];
	const char *why;	/* it was picked, static; or NULL */
	uint64_t start, length; /* bytes */
	uint64_t guest_addr;
	uint16_t index; /* in the image: the order of adding */

	/* Filled by protect_prepare(). */
	enum region_kind kind;
	uint32_t page_size;   /* of the backing, bytes */
	int fd;		      /* of a shared mapping, -1 if not to be had */
	uint64_t fd_offset;   /* where the region starts in it */
	const uint8_t *alias; /* our own mapping of fd, or NULL */
	bool usable;	      /* nothing is wrong with it */
	bool registered;
	struct pagestate ps;
	_Atomic uint8_t *blocks; /* enum block_kind, by 2 MiB of address */
	_Atomic uint8_t *heat;	 /* faults so far, likewise; sticks at 255 */
};

struct region_table {
	struct region **by_index;
	struct region **by_addr; /* the same, sorted by start */
	size_t count;
};

/** Add a region.  0, or -EINVAL, -EEXIST, -ENOMEM with the text set. */
int region_add(struct region_table *t, const struct snap_region *spec);
void region_table_free(struct region_table *t);

/** The region that holds @addr, or NULL. */
struct region *region_find(const struct region_table *t, uint64_t addr);

/** The first region that ends above @addr, or NULL. */
struct region *region_from(const struct region_table *t, uint64_t addr);

static inline uint64_t region_end(const struct region *r)
{
	return r->start + r->length;
}

static inline uint64_t region_pages(const struct region *r)
{
	return r->length >> PAGE_SHIFT;
}

static inline uint64_t region_addr(const struct region *r, uint64_t page)
{
	return r->start + (page << PAGE_SHIFT);
}

static inline bool region_is_hugetlb(const struct region *r)
{
	return r->kind == REGION_HUGETLB || r->kind == REGION_HUGETLB_SHARED;
}

/** A run of pages of a region. */
struct page_run {
	uint64_t first, count;
};

/** The pages of @r in the 2 MiB of address space that hold @page. */
struct page_run region_block(const struct region *r, uint64_t page);

/** The slot of r->blocks for @page. */
static inline size_t region_block_slot(const struct region *r, uint64_t page)
{
	return region_addr(r, page) / BLOCK_BYTES - r->start / BLOCK_BYTES;
}

static inline _Atomic uint8_t *region_block_kind(const struct region *r,
						 uint64_t page)
{
	return &r->blocks[region_block_slot(r, page)];
}

/** The slot of r->heat for @page. */
static inline _Atomic uint8_t *region_heat(const struct region *r,
					   uint64_t page)
{
	return &r->heat[region_block_slot(r, page)];
}

#endif

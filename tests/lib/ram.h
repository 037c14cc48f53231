/* SPDX-License-Identifier: MIT */
/* Makes the kinds of memory that a guest may live in. */
#ifndef TEST_RAM_H
#define TEST_RAM_H

#include <stddef.h>
#include <stdint.h>

enum ram_kind {
	RAM_ANON,	   /* private anonymous, 4 KiB pages only */
	RAM_THP,	   /* private anonymous, whole huge pages */
	RAM_MEMFD,	   /* memfd, shared */
	RAM_SHARED,	   /* MAP_SHARED anonymous */
	RAM_HUGETLB,	   /* private anonymous hugetlb, 2 MiB */
	RAM_HUGETLB_MEMFD, /* hugetlb memfd, shared, 2 MiB */
	RAM_KINDS,
};

struct ram {
	enum ram_kind kind;
	uint8_t *addr; /* 2 MiB aligned */
	size_t len;
	size_t page_size;
	int fd; /* -1 where there is no file */
	void *map;
	size_t map_len;
};

const char *ram_kind_name(enum ram_kind kind);

/** Bytes of the backing's page. */
size_t ram_page_size(enum ram_kind kind);

/**
 * Map @len bytes, nothing populated.  Returns 0 or -errno; -ENOTSUP is "not
 * on this machine", with the reason in ram_why().  hugetlb pages are taken
 * from nr_hugepages, which is raised as needed and put back at exit.
 */
int ram_make(struct ram *r, enum ram_kind kind, size_t len);
const char *ram_why(void);
void ram_free(struct ram *r);

/** Pages of 4 KiB in the range that nothing was ever written to or read
 * from, found without touching any. */
uint64_t ram_absent_pages(const struct ram *r, size_t offset, size_t len);

#endif

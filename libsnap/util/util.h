/* SPDX-License-Identifier: MIT */
/* Small arithmetic that every module wants. */
#ifndef SNAP_UTIL_H
#define SNAP_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* Pages are always 4 KiB here; blocks are what one huge page covers. */
#define PAGE_SHIFT 12
#define PAGE_BYTES ((size_t)1 << PAGE_SHIFT)
#define BLOCK_BYTES (2 * MIB)
#define BLOCK_PAGES (BLOCK_BYTES / PAGE_BYTES)

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/** @to must be a power of two. */
static inline uint64_t align_down(uint64_t v, uint64_t to)
{
	return v & ~(to - 1);
}

static inline uint64_t align_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) & ~(to - 1);
}

static inline bool is_aligned(uint64_t v, uint64_t to)
{
	return (v & (to - 1)) == 0;
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void nap_us(unsigned us)
{
	struct timespec t = {0, (long)us * 1000};

	nanosleep(&t, NULL);
}

#endif

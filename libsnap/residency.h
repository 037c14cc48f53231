/* SPDX-License-Identifier: MIT */
/*
 * What is behind a range of addresses: present, absent, huge; from the page
 * map.  PAGEMAP_SCAN (Linux 6.7) or the entries of /proc/PID/pagemap.
 */
#ifndef SNAP_RESIDENCY_H
#define SNAP_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "util/util.h"

struct residency {
	int fd;	   /* /proc/PID/pagemap */
	bool scan; /* PAGEMAP_SCAN works */
};

/** Open for @pid (0: this process).  0 or -errno with the text set. */
int residency_open(struct residency *r, pid_t pid);
void residency_close(struct residency *r);

/** A run of pages alike; what lies between runs is absent. */
struct residency_run {
	uint64_t start, end; /* addresses */
	bool huge;	     /* mapped by a huge page (unknown: false) */
};

/**
 * The runs of [@start, @end), BLOCK_PAGES pages at most, that are present or
 * swapped out, in order.  Entries that only carry the write-protect mark of a
 * hole (PTE markers) are absent.  @runs has room for BLOCK_PAGES runs.
 * Returns how many, or -errno.
 */
int residency_runs(struct residency *r, uint64_t start, uint64_t end,
		   struct residency_run *runs);

/** 1 when the page at @addr is mapped by a huge page, 0 when not, -ENOTSUP
 * when this kernel does not tell, or -errno. */
int residency_huge(struct residency *r, uint64_t addr);

/** Whether every page of [@start, @end), 2 MiB at most, is write-protected as it
 * was at the snapshot point, be it present or a hole: then nobody dropped it,
 * as that takes the mark away (anonymous memory). */
bool residency_protected(struct residency *r, uint64_t start, uint64_t end);

#endif

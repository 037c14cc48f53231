/* SPDX-License-Identifier: MIT */
/*
 * Whose memory is captured, and how its pages are read.
 *
 * Own memory is not read with memcpy(), because the program may unmap a region
 * while it is being saved: that must end the snapshot and not the program.  It
 * is "written" from there into our buffer with process_vm_writev() to ourselves:
 * the kernel looks up the remote side page by page, and that is cheaper for the
 * huge pages of the buffer than for guest RAM in small ones.  A shared region whose file is sealed against
 * shrinking is read through a mapping of our own, which nobody else can unmap
 * and which costs no system call.  Shared hugetlb is read from its file, since a
 * touch of a hole would take a huge page from the reserve.
 */
#ifndef SNAP_TARGET_H
#define SNAP_TARGET_H

#include <stdint.h>
#include <sys/types.h>

#include "region.h"
#include "stats.h"

struct target {
	pid_t pid; /* of the memory */
	bool own;
	int mem_fd; /* /proc/PID/mem, own: where process_vm_writev() is
		     * forbidden */
	struct stats *stats;
};

/** This process: find out how to read.  0 or -errno with the text. */
int target_open(struct target *t, struct stats *stats);
/** Another process, whose /proc/PID/mem @mem_fd is.  0 or -errno, text set. */
int target_open_other(struct target *t, pid_t pid, int mem_fd,
		      struct stats *stats);
void target_close(struct target *t);

/** Map a shared region for reading where that is safe; else do nothing. */
void target_map(struct target *t, struct region *r);
void target_unmap(struct region *r);

/** Copy pages into @dst.  0, -EFAULT when they are not mapped any more, -ESRCH
 * when their process has ended or runs another program. */
int target_read(struct target *t, const struct region *r, uint64_t first,
		uint64_t count, void *dst);

/**
 * Where the file behind a shared region has data: from @page on, the first run
 * below @end.  A run with count 0 when there is none.  Without a descriptor
 * everything counts as data.
 */
struct page_run target_data(struct target *t, const struct region *r,
			    uint64_t page, uint64_t end);

#endif

/* SPDX-License-Identifier: MIT */
/* Ways in which another process's memory can change behind a snapshot. */
#ifndef SNAP_HAZARD_H
#define SNAP_HAZARD_H

#include <sys/types.h>

#include "region.h"

/**
 * Look for what write-protection does not see, or what forbids it, before the
 * process is touched:
 *
 *	uffd	  memory registered with another userfaultfd
 *	vfio	  a device that writes to RAM by DMA
 *	io_uring  buffers of an io_uring pinned in RAM, written by the kernel
 *	shared	  a file of RAM that another process has mapped writable
 *	ksm	  RAM whose pages ksmd may be merging
 *	output	  the output, @output or NULL, is mapped by the process
 *
 * Those in @allow (enum snap_hazard) are passed over; uffd cannot be.  0, or
 * -EBUSY with a text that names each (SNAP_FAILURE_REFUSED), or -errno when
 * /proc cannot be read.
 */
int hazard_check(const struct region_table *t, pid_t pid, const char *output,
		 unsigned allow);

#endif

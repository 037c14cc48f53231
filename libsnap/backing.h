/* SPDX-License-Identifier: MIT */
/* What memory the regions are: kind, page size, file; and what is refused. */
#ifndef SNAP_BACKING_H
#define SNAP_BACKING_H

#include "complaints.h"
#include "region.h"

/**
 * Look every region up in the mappings of @pid (0: this process) and fill kind,
 * page_size, fd, fd_offset and usable.  @own: an address of the library's own
 * memory, which must not lie in a region of this process.
 *
 * What is wrong with a region (-EFAULT, -EACCES, -EINVAL, -EOPNOTSUPP) goes to
 * @c.  Returns 0, also then, or -errno with the text set when the mappings
 * cannot be read.
 */
int backing_resolve(struct region_table *t, pid_t pid, const void *own,
		    struct complaints *c);

/** Close the files. */
void backing_release(struct region_table *t);

#endif

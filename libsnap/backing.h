/* SPDX-License-Identifier: MIT */
/* What memory the regions are: kind, page size, file; and what is refused. */
#ifndef SNAP_BACKING_H
#define SNAP_BACKING_H

#include "region.h"

/**
 * Look every region up in this process's mappings and fill kind, page_size, fd
 * and fd_offset.  @own: an address of the library's own memory, which must not
 * lie in a region.
 *
 * Returns 0, or the first region's -EFAULT, -EACCES, -EINVAL or -EOPNOTSUPP
 * with a text that names every region that is wrong.
 */
int backing_resolve(struct region_table *t, const void *own);

/** Close the files. */
void backing_release(struct region_table *t);

#endif

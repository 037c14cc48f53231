/* SPDX-License-Identifier: MIT */
/* Memory that RAM is restored into: checked, and emptied. */
#ifndef SNAP_RESTORE_DEST_H
#define SNAP_RESTORE_DEST_H

#include <stddef.h>

/**
 * Check that @len bytes at @dest are mapped and writable, and make all of them
 * zero: as holes where the backing can have holes.
 * Returns 0, -EFAULT (not mapped or read-only), or what reading the mappings
 * gave, with the text set.
 */
int restore_dest_clear(void *dest, size_t len);

#endif

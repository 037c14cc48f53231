/* SPDX-License-Identifier: MIT */
/* Finds the memory of a process that is worth saving. */
#ifndef SNAP_PICK_H
#define SNAP_PICK_H

#include <sys/types.h>

#include "region.h"

/**
 * Add the RAM of process @pid to @t, with why it was taken.  0, or -errno with
 * the text set: -ENOENT when nothing was found, what /proc/PID/maps gave,
 * -ENOMEM.
 */
int pick_ram(struct region_table *t, pid_t pid);

#endif

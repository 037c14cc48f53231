/* SPDX-License-Identifier: MIT */
/* What saving costs on this machine, measured on memory and a child of ours. */
#ifndef SNAPLAT_CALIBRATE_H
#define SNAPLAT_CALIBRATE_H

#include <stdbool.h>

struct costs {
	double protect_page_us, protect_huge_us; /* for each of them */
	double begin_us; /* snap_begin() of a small process, all of it */
	double page_mib_s, huge_mib_s; /* of saving another process */
};

/** false: why it cannot be is in @why. */
bool calibrate(struct costs *out, char *why, unsigned room);

#endif

/* SPDX-License-Identifier: MIT */
/* Tells a person how far a snapshot is: a bar, or a line a second. */
#ifndef SNAPD_PROGRESS_H
#define SNAPD_PROGRESS_H

#include "options.h"

struct progress {
	enum progress_kind kind; /**< PROGRESS_AUTO: the bar */
	uint64_t begun_ms, shown_ms;
	bool shown; /**< a bar is on the screen */
};

/** How often progress_tick() is to be called, ms; -1: never. */
int progress_interval(const struct progress *p);

/** Auto is a bar on a terminal and nothing elsewhere. */
void progress_start(struct progress *p, enum progress_kind kind);
void progress_tick(struct progress *p, struct snap *s);
/** Take the bar away. */
void progress_end(struct progress *p);

#endif

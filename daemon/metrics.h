/* SPDX-License-Identifier: MIT */
/* Figures of all snapshots together, as Prometheus reads them. */
#ifndef SNAPD_METRICS_H
#define SNAPD_METRICS_H

#include "libsnap.h"
#include "program.h"

#define METRICS_CODES 8 /* exit codes */
#define METRICS_BUCKETS 16

struct metrics {
	uint64_t ended[METRICS_CODES]; /**< by exit code; 0: complete */
	uint64_t faults, by_fault, by_sweep, in_pause, absent;
	uint64_t unprotect_ranges, pool_waits, bytes_written, discards;
	uint64_t fault_buckets[METRICS_BUCKETS];
	double fault_seconds;
	double pause_seconds; /**< of all together */
};

/** Add a snapshot that has ended; @s may be NULL. */
void metrics_add(struct metrics *m, struct snap *s, enum exit_code code);
/** Add what one that runs has done up to now. */
void metrics_add_running(struct metrics *m, struct snap *s);
/** To be freed; NULL: no memory. */
char *metrics_text(const struct metrics *m, unsigned running);

#endif

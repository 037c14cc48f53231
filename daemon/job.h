/* SPDX-License-Identifier: MIT */
/* One snapshot of one process, up to its snapshot point. */
#ifndef SNAPD_JOB_H
#define SNAPD_JOB_H

#include "failure.h"
#include "options.h"
#include "qmp.h"

struct job {
	const struct options *options;
	struct snap *snap; /**< NULL until it came to one */
	struct qmp *qmp;
	struct failure failure;
	uint64_t pause_us; /**< with QMP, the library's own is a part of it */
};

/** All that can be done while the process runs.  0 or -1 with the failure set;
 * blocks for as long as attaching and QEMU's answers take. */
int job_prepare(struct job *j);

/** The pause and the snapshot point.  0 or -1 with the failure set: then too
 * the process runs on. */
int job_begin(struct job *j);

/** Cancel what runs, wait for its end and free. */
void job_close(struct job *j);

#endif

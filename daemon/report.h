/* SPDX-License-Identifier: MIT */
/* What is told of a snapshot, as an object. */
#ifndef SNAPD_REPORT_H
#define SNAPD_REPORT_H

#include <jansson.h>
#include <stddef.h>

#include "job.h"

/** The object of the contract: of a job that runs, has ended, or did not come
 * to a snapshot.  New; NULL: no memory. */
json_t *report_json(const struct job *j);

/** The snapshot's UUID as text. */
void report_id(struct snap *s, char *out, size_t size);

#endif

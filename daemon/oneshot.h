/* SPDX-License-Identifier: MIT */
/* snapd --pid: one snapshot of one process. */
#ifndef SNAPD_ONESHOT_H
#define SNAPD_ONESHOT_H

#include "options.h"

enum exit_code oneshot_run(const struct options *o);

#endif

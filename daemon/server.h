/* SPDX-License-Identifier: MIT */
/* snapd --listen: the socket, its clients, the life of the daemon. */
#ifndef SNAPD_SERVER_H
#define SNAPD_SERVER_H

#include "options.h"

enum exit_code server_run(const struct options *o);

#endif

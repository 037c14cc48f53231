/* SPDX-License-Identifier: MIT */
/* The daemon's client: one request, its answer, notifications in between. */
#ifndef SNAPCTL_CLIENT_H
#define SNAPCTL_CLIENT_H

#include <jansson.h>

#include "snapctl.h"

struct client;

/** Connect to the --socket that was given.  EXIT_DONE, or the reason was said. */
enum exit_code client_open(struct client **out);
void client_close(struct client *c);

/**
 * Call @method; @params are taken over.  EXIT_DONE with *result, to be freed;
 * or the daemon's reason was said and its exit code is returned.
 * @notified, if not NULL, is called with each notification that comes before
 * the answer.
 */
enum exit_code client_call(struct client *c, const char *method, json_t *params,
			   json_t **result,
			   void (*notified)(const char *method,
					    const json_t *params));

#endif

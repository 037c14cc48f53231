/* SPDX-License-Identifier: MIT */
/* JSON-RPC 2.0: one request a line, to the methods of the daemon. */
#ifndef SNAPD_RPC_H
#define SNAPD_RPC_H

#include <stddef.h>

#include "client.h"
#include "session.h"

void rpc_line(struct sessions *s, struct client *c, const char *text,
	      size_t len);

/** session_callbacks.answer and .notify; @client is a struct client. */
void rpc_answer(void *client, json_t *id, json_t *result,
		const struct failure *f);
void rpc_notify(void *client, const char *method, json_t *params);

#endif

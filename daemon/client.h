/* SPDX-License-Identifier: MIT */
/*
 * A connection: lines in, lines out.
 *
 * How it works.  A line that is too long, or a reader so slow that its answers
 * pile up, ends the connection; snapshots that it started go on.  Nothing that
 * a client does or leaves undone makes the loop wait.
 */
#ifndef SNAPD_CLIENT_H
#define SNAPD_CLIENT_H

#include <jansson.h>
#include <uv.h>

struct client;

struct client_callbacks {
	/** A whole line, without its end. */
	void (*line)(struct client *c, const char *text, size_t len,
		     void *user_data);
	/** It has gone; @c is freed afterwards. */
	void (*gone)(struct client *c, void *user_data);
	void *user_data;
};

/** Take the next connection of @server, if its peer may. */
void client_accept(uv_stream_t *server, const struct client_callbacks *cb);

/** Send an object and a new line; takes @o over. */
void client_send(struct client *c, json_t *o);
void client_close(struct client *c);

#endif

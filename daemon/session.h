/* SPDX-License-Identifier: MIT */
/*
 * The snapshots that the daemon takes.
 *
 * How it works.  Attaching, asking QEMU and the pause block, so they run on
 * libuv's threads; everything else happens on the loop's thread.  A session
 * has two moments: begun (or not), and ended.  Whoever waits for one of them
 * is a struct waiter; a waiter whose client has gone is dropped by
 * sessions_forget().
 */
#ifndef SNAPD_SESSION_H
#define SNAPD_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "failure.h"

struct session;
struct sessions;

/** How an answer gets to who asked; both on the loop's thread. */
struct waiter {
	void *client;
	json_t *id; /**< of the request; owned by the waiter */
};

struct session_callbacks {
	/** @result is the callee's; NULL: @f says why there is none. */
	void (*answer)(void *client, json_t *id, json_t *result,
		       const struct failure *f);
	void (*notify)(void *client, const char *method, json_t *params);
	/** The last session has ended after sessions_shut_down(). */
	void (*empty)(void *user_data);
	void *user_data;
};

int sessions_create(struct sessions **out, uv_loop_t *loop,
		    const struct session_callbacks *cb);
void sessions_destroy(struct sessions *s);

/** Start one as @params say.  The answer comes when the snapshot point has been
 * reached, or was not.  0, or -1 with @f set at once; @w is taken over with 0. */
int sessions_start(struct sessions *s, json_t *params, struct waiter w,
		   struct failure *f);

/** By its id, or NULL. */
struct session *sessions_find(struct sessions *s, const char *id);

/** What is known of it: a new object. */
json_t *session_report(const struct session *one);
void session_cancel(struct session *one);
/** Answer @w with the report when it has ended.  Takes @w over. */
void session_wait(struct session *one, struct waiter w);
/** Send @w's client "snapshot.progress" until the end. */
int session_subscribe(struct session *one, void *client);

json_t *sessions_list(struct sessions *s);
/** Prometheus text, to be freed; NULL: no memory. */
char *sessions_metrics(struct sessions *s);

/** @client has gone: its answers go nowhere.  The snapshots go on. */
void sessions_forget(struct sessions *s, void *client);
/** Cancel all and take no more; callbacks.empty follows. */
void sessions_shut_down(struct sessions *s);

#endif

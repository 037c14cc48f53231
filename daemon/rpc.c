// SPDX-License-Identifier: MIT
/* JSON-RPC 2.0: one request a line, to the methods of the daemon. */
#include "rpc.h"

#include <stdlib.h>
#include <string.h>

#include "libsnap.h"

/* The specification's codes; ours are FAILURE_BASE - exit code. */
#define PARSE_ERROR (-32700)
#define INVALID_REQUEST (-32600)
#define NO_SUCH_METHOD (-32601)
#define FAILURE_BASE (-32000)

/* One request. */
struct call {
	struct sessions *sessions;
	struct client *client;
	json_t *id; /* NULL: a notification, which is not answered */
	json_t *params;
};

static void send_error(struct client *c, json_t *id, int code, const char *text,
		       json_t *data)
{
	json_t *shown = json_string(text);

	if (!shown)
		shown = json_string("a text that is not UTF-8");
	client_send(c, json_pack("{s:s,s:o,s:{s:i,s:o,s:o*}}", "jsonrpc", "2.0",
				 "id", id ? id : json_null(), "error", "code",
				 code, "message", shown, "data", data));
}

void rpc_answer(void *client, json_t *id, json_t *result,
		const struct failure *f)
{
	if (!id) {
		json_decref(result);
		return;
	}
	if (result)
		client_send(client, json_pack("{s:s,s:o,s:o}", "jsonrpc", "2.0",
					      "id", id, "result", result));
	else
		send_error(client, id, FAILURE_BASE - (int)f->code, f->text,
			   json_pack("{s:i}", "exit_code", (int)f->code));
}

void rpc_notify(void *client, const char *method, json_t *params)
{
	client_send(client, json_pack("{s:s,s:s,s:o}", "jsonrpc", "2.0",
				      "method", method, "params", params));
}

static void reply(struct call *call, json_t *result)
{
	rpc_answer(call->client, json_incref(call->id), result, NULL);
}

static void refuse(struct call *call, const struct failure *f)
{
	rpc_answer(call->client, json_incref(call->id), NULL, f);
}

/* The session that the params name, or NULL with the error answered. */
static struct session *named(struct call *call)
{
	const char *id = json_string_value(json_object_get(call->params, "id"));
	struct session *one = sessions_find(call->sessions, id);
	struct failure f = {0};

	if (one)
		return one;
	failure_set(&f, EXIT_USAGE,
		    id ? "there is no snapshot %s"
		       : "give the id of a snapshot",
		    id);
	refuse(call, &f);
	return NULL;
}

static struct waiter waiter_of(struct call *call)
{
	return (struct waiter){call->client, json_incref(call->id)};
}

static void method_start(struct call *call)
{
	struct waiter w = waiter_of(call);
	struct failure f = {0};

	if (!sessions_start(call->sessions, call->params, w, &f))
		return;
	json_decref(w.id);
	refuse(call, &f);
}

static void method_status(struct call *call)
{
	struct session *one = named(call);

	if (one)
		reply(call, session_report(one));
}

static void method_cancel(struct call *call)
{
	struct session *one = named(call);

	if (!one)
		return;
	session_cancel(one);
	reply(call, json_object());
}

static void method_wait(struct call *call)
{
	struct session *one = named(call);

	if (one)
		session_wait(one, waiter_of(call));
}

static void method_subscribe(struct call *call)
{
	struct session *one = named(call);
	struct failure f = {0};

	if (!one)
		return;
	if (!session_subscribe(one, call->client)) {
		reply(call, json_object());
		return;
	}
	failure_set(&f, EXIT_REFUSED, "too many have subscribed to it");
	refuse(call, &f);
}

static void method_list(struct call *call)
{
	reply(call, sessions_list(call->sessions));
}

static void method_metrics(struct call *call)
{
	char *text = sessions_metrics(call->sessions);

	reply(call, json_string(text ? text : ""));
	free(text);
}

static void method_probe(struct call *call)
{
	char *text = snap_probe_json();
	json_t *o = text ? json_loads(text, 0, NULL) : NULL;

	free(text);
	reply(call, o ? o : json_object());
}

static const struct {
	const char *name;
	void (*run)(struct call *call);
} methods[] = {
	{"snapshot.start", method_start},
	{"snapshot.status", method_status},
	{"snapshot.cancel", method_cancel},
	{"snapshot.wait", method_wait},
	{"snapshot.subscribe", method_subscribe},
	{"snapshot.list", method_list},
	{"probe", method_probe},
	{"metrics", method_metrics},
};

static void dispatch(struct call *call, const char *method)
{
	size_t i;

	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(methods[i].name, method) != 0)
			continue;
		methods[i].run(call);
		return;
	}
	if (call->id)
		send_error(call->client, json_incref(call->id), NO_SUCH_METHOD,
			   "there is no such method", NULL);
}

static bool is_id(const json_t *id)
{
	return !id || json_is_string(id) || json_is_number(id) ||
	       json_is_null(id);
}

void rpc_line(struct sessions *s, struct client *c, const char *text,
	      size_t len)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	json_t *none = json_object(), *params;
	const char *method, *version;
	struct call call = {.sessions = s, .client = c};

	if (!o) {
		send_error(c, NULL, PARSE_ERROR, "this is not JSON", NULL);
		json_decref(none);
		return;
	}
	call.id = json_object_get(o, "id");
	params = json_object_get(o, "params");
	call.params = params ? params : none;
	method = json_string_value(json_object_get(o, "method"));
	version = json_string_value(json_object_get(o, "jsonrpc"));
	if (method && version && !strcmp(version, "2.0") && is_id(call.id) &&
	    json_is_object(call.params))
		dispatch(&call, method);
	else
		send_error(c, is_id(call.id) ? json_incref(call.id) : NULL,
			   INVALID_REQUEST,
			   "give jsonrpc \"2.0\", a method and an object of "
			   "params",
			   NULL);
	json_decref(o);
	json_decref(none);
}

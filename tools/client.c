// SPDX-License-Identifier: MIT
/* The daemon's client: one request, its answer, notifications in between. */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct client {
	FILE *in;
	int fd;
	int id;
	char *line;
	size_t room;
};

enum exit_code client_open(struct client **out)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = socket_path;
	struct client *c;

	if (!path)
		return fail(EXIT_USAGE, "--socket SOCKET is missing before the "
					"command: it is the daemon's");
	if (strlen(path) >= sizeof(to.sun_path))
		return fail(EXIT_USAGE, "--socket %s: the name is too long",
			    path);
	c = calloc(1, sizeof(*c));
	if (!c)
		return fail(EXIT_FAILED, "no memory");
	strcpy(to.sun_path, path);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd >= 0 &&
	    !connect(c->fd, (const struct sockaddr *)&to, sizeof(to)))
		c->in = fdopen(c->fd, "r");
	if (!c->in) {
		fail(EXIT_FAILED, "cannot connect to the daemon at %s: %s",
		     path, strerror(errno));
		client_close(c);
		return EXIT_FAILED;
	}
	*out = c;
	return EXIT_DONE;
}

void client_close(struct client *c)
{
	if (!c)
		return;
	if (c->in)
		fclose(c->in);
	else if (c->fd >= 0)
		close(c->fd);
	free(c->line);
	free(c);
}

static enum exit_code send_text(struct client *c, char *text)
{
	size_t len = strlen(text), at = 0;
	ssize_t n;

	text[len++] = '\n'; /* in the place of the NUL */
	while (at < len) {
		n = send(c->fd, text + at, len - at, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return fail(EXIT_FAILED, "the daemon has closed the "
						 "connection");
		at += n > 0 ? (size_t)n : 0;
	}
	return EXIT_DONE;
}

static enum exit_code refused(json_t *o)
{
	const char *text = "no reason is given";
	int code = EXIT_FAILED;

	json_unpack(o, "{s:{s:s}}", "error", "message", &text);
	json_unpack(o, "{s:{s:{s:i}}}", "error", "data", "exit_code", &code);
	if (code < EXIT_FAILED || code > EXIT_CANCELLED)
		code = EXIT_FAILED;
	return fail((enum exit_code)code, "%s", text);
}

/* The answer with id c->id. */
static enum exit_code receive(struct client *c, json_t **answer,
			      void (*notified)(const char *, const json_t *))
{
	const char *method;
	json_t *o;
	ssize_t n;
	int id;

	for (;;) {
		n = getline(&c->line, &c->room, c->in);
		if (n <= 0)
			return fail(EXIT_FAILED,
				    "the daemon has closed the connection");
		o = json_loadb(c->line, (size_t)n, 0, NULL);
		if (!json_is_object(o)) {
			json_decref(o);
			return fail(EXIT_FAILED,
				    "the daemon does not speak JSON-RPC");
		}
		method = json_string_value(json_object_get(o, "method"));
		if (method && notified)
			notified(method, json_object_get(o, "params"));
		else if (!method && !json_unpack(o, "{s:i}", "id", &id) &&
			 id == c->id)
			break;
		json_decref(o);
	}
	*answer = o;
	return EXIT_DONE;
}

enum exit_code client_call(struct client *c, const char *method, json_t *params,
			   json_t **result,
			   void (*notified)(const char *method,
					    const json_t *params))
{
	json_t *o = json_pack("{s:s,s:i,s:s,s:o}", "jsonrpc", "2.0", "id",
			      ++c->id, "method", method, "params", params);
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	enum exit_code code;

	json_decref(o);
	if (!text)
		return fail(EXIT_FAILED, "this cannot be put into a request: "
					 "is every name UTF-8?");
	code = send_text(c, text);
	free(text);
	if (code == EXIT_DONE)
		code = receive(c, &o, notified);
	if (code != EXIT_DONE)
		return code;
	*result = json_incref(json_object_get(o, "result"));
	if (!*result)
		code = refused(o);
	json_decref(o);
	return code;
}

// SPDX-License-Identifier: MIT
/* A connection: lines in, lines out. */
#include "client.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"

#define LINE_LIMIT ((size_t)1 << 20)
#define QUEUE_LIMIT ((size_t)4 << 20)

struct client {
	uv_pipe_t pipe;
	struct client_callbacks cb;
	bool closing;
	char *line;
	size_t used, room;
};

struct outgoing {
	uv_write_t request;
	char *text;
};

static void on_closed(uv_handle_t *h)
{
	struct client *c = h->data;

	c->cb.gone(c, c->cb.user_data);
	free(c->line);
	free(c);
}

void client_close(struct client *c)
{
	if (c->closing)
		return;
	c->closing = true;
	uv_close((uv_handle_t *)&c->pipe, on_closed);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
	static char shared[64 << 10]; /* one read at a time: libuv(3) */

	(void)h;
	(void)suggested;
	*buf = uv_buf_init(shared, sizeof(shared));
}

static int append(struct client *c, const char *data, size_t len)
{
	char *more;

	if (c->used + len > LINE_LIMIT)
		return -1;
	if (c->used + len > c->room) {
		more = realloc(c->line, c->used + len);
		if (!more)
			return -1;
		c->line = more;
		c->room = c->used + len;
	}
	memcpy(c->line + c->used, data, len);
	c->used += len;
	return 0;
}

/* Give all whole lines away, keep the rest. */
static void take_lines(struct client *c)
{
	char *start = c->line, *end;
	size_t left = c->used;

	while (!c->closing && left && (end = memchr(start, '\n', left))) {
		if (end != start)
			c->cb.line(c, start, (size_t)(end - start),
				   c->cb.user_data);
		left -= (size_t)(end - start) + 1;
		start = end + 1;
	}
	memmove(c->line, start, left);
	c->used = left;
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct client *c = s->data;

	if (n < 0) {
		client_close(c);
		return;
	}
	if (n && append(c, buf->base, (size_t)n)) {
		log_say(LOG_ERROR, "a client sent a line of more than 1 MiB");
		client_close(c);
		return;
	}
	if (n && memchr(buf->base, '\n', (size_t)n))
		take_lines(c);
}

static bool may_connect(uv_pipe_t *pipe)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	uv_os_fd_t fd;

	if (uv_fileno((uv_handle_t *)pipe, &fd) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return false;
	if (peer.uid == 0 || peer.uid == geteuid())
		return true;
	log_say(LOG_ERROR, "process %d of user %u may not connect",
		(int)peer.pid, (unsigned)peer.uid);
	return false;
}

void client_accept(uv_stream_t *server, const struct client_callbacks *cb)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return;
	c->cb = *cb;
	uv_pipe_init(server->loop, &c->pipe, 0);
	c->pipe.data = c;
	if (uv_accept(server, (uv_stream_t *)&c->pipe) ||
	    !may_connect(&c->pipe) ||
	    uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read))
		client_close(c);
}

static void on_written(uv_write_t *request, int status)
{
	struct outgoing *out = (struct outgoing *)request;

	(void)status; /* a broken connection is seen by on_read() */
	free(out->text);
	free(out);
}

void client_send(struct client *c, json_t *o)
{
	struct outgoing *out = calloc(1, sizeof(*out));
	uv_stream_t *stream = (uv_stream_t *)&c->pipe;
	size_t len;
	uv_buf_t buf;

	if (out)
		out->text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	if (!out || !out->text || c->closing) {
		if (out)
			free(out->text);
		free(out);
		return;
	}
	len = strlen(out->text);
	out->text[len++] = '\n'; /* in the place of the NUL */
	buf = uv_buf_init(out->text, (unsigned)len);
	if (uv_write(&out->request, stream, &buf, 1, on_written)) {
		free(out->text);
		free(out);
		client_close(c);
	} else if (uv_stream_get_write_queue_size(stream) > QUEUE_LIMIT) {
		log_say(LOG_ERROR, "a client does not read its answers");
		client_close(c);
	}
}

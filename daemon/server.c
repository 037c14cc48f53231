// SPDX-License-Identifier: MIT
/* snapd --listen: the socket, its clients, the life of the daemon. */
#include "server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "client.h"
#include "log.h"
#include "notify.h"
#include "rpc.h"
#include "session.h"

#define BACKLOG 64

struct server {
	const struct options *o;
	uv_loop_t loop;
	uv_pipe_t pipe;
	uv_signal_t signals[2];
	struct sessions *sessions;
	bool ending;
};

/* ---- the end ---- */

static void close_any(uv_handle_t *h, void *arg)
{
	(void)arg;
	if (h->type == UV_NAMED_PIPE && h->data)
		client_close(h->data);
	else if (!uv_is_closing(h))
		uv_close(h, NULL);
}

/* All snapshots have ended: nothing is left to wait for. */
static void on_empty(void *user_data)
{
	struct server *s = user_data;

	uv_walk(&s->loop, close_any, NULL);
}

static void on_signal(uv_signal_t *h, int number)
{
	struct server *s = h->data;

	if (s->ending)
		return;
	s->ending = true;
	log_say(LOG_INFO, "%s: every snapshot is cancelled", strsignal(number));
	notify_systemd("STOPPING=1");
	uv_close((uv_handle_t *)&s->pipe, NULL);
	sessions_shut_down(s->sessions);
}

/* ---- clients ---- */

static void on_line(struct client *c, const char *text, size_t len,
		    void *user_data)
{
	struct server *s = user_data;

	rpc_line(s->sessions, c, text, len);
}

static void on_gone(struct client *c, void *user_data)
{
	struct server *s = user_data;

	sessions_forget(s->sessions, c);
}

static void on_connection(uv_stream_t *pipe, int status)
{
	struct server *s = pipe->loop->data;
	const struct client_callbacks cb = {on_line, on_gone, s};

	if (!status)
		client_accept(pipe, &cb);
}

/* ---- the socket ---- */

/* A socket file that nobody listens at is what a daemon left that was killed.
 * 0, or -1 when somebody does. */
static int remove_stale(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct stat st;
	int fd, err;

	if (lstat(path, &st) || !S_ISSOCK(st.st_mode))
		return 0; /* whatever it is, bind() will say so */
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	err = fd < 0 ? -1
		     : connect(fd, (const struct sockaddr *)&to, sizeof(to));
	if (fd >= 0)
		close(fd);
	if (!err)
		return -1;
	if (errno == ECONNREFUSED)
		unlink(path);
	return 0;
}

static enum exit_code listen_at(struct server *s, const char *path)
{
	mode_t before;
	int err;

	if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return fail(EXIT_USAGE, "--listen %s: the name is too long",
			    path);
	if (remove_stale(path))
		return fail(EXIT_FAILED, "%s: another daemon listens there",
			    path);
	uv_pipe_init(&s->loop, &s->pipe, 0);
	before = umask(0177); /* 0600 from the first moment on */
	err = uv_pipe_bind(&s->pipe, path);
	umask(before);
	if (!err)
		err = uv_listen((uv_stream_t *)&s->pipe, BACKLOG,
				on_connection);
	return err ? fail(EXIT_FAILED, "cannot listen at %s: %s", path,
			  uv_strerror(err))
		   : EXIT_DONE;
}

static void watch_signals(struct server *s)
{
	static const int numbers[] = {SIGTERM, SIGINT};
	unsigned i;

	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < 2; i++) {
		uv_signal_init(&s->loop, &s->signals[i]);
		s->signals[i].data = s;
		uv_signal_start(&s->signals[i], on_signal, numbers[i]);
	}
}

enum exit_code server_run(const struct options *o)
{
	struct server s = {.o = o};
	const struct session_callbacks cb = {rpc_answer, rpc_notify, on_empty,
					     &s};
	enum exit_code code;

	log_set_level(o->log_level);
	if (uv_loop_init(&s.loop) || sessions_create(&s.sessions, &s.loop, &cb))
		return fail(EXIT_FAILED, "no memory for the daemon");
	s.loop.data = &s;
	code = listen_at(&s, o->listen);
	if (code == EXIT_DONE) {
		watch_signals(&s);
		log_say(LOG_INFO, "listening at %s", o->listen);
		notify_systemd("READY=1");
	} else {
		on_empty(&s);
	}
	uv_run(&s.loop, UV_RUN_DEFAULT);
	sessions_destroy(s.sessions);
	uv_loop_close(&s.loop);
	return code;
}

// SPDX-License-Identifier: MIT
/* The snapshots that the daemon takes. */
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "log.h"
#include "metrics.h"
#include "report.h"

#define RUNNING_MAX 64u
#define ENDED_KEPT 100u /* whose reports can still be asked for */
#define WAITERS_MAX 64u
#define PROGRESS_MS 500u
#define ID_MAX 40

enum phase { PHASE_BEGINNING, PHASE_RUNNING, PHASE_ENDED };

struct session {
	struct sessions *all;
	struct session *next;
	char id[ID_MAX]; /* of the snapshot; known once it was prepared */
	enum phase phase;
	bool cancelled; /* asked for while it begins */
	json_t *params; /* owns the strings in options */
	struct options options;
	struct job job;
	int begin_err;
	uv_work_t work;
	uv_poll_t poll;
	uv_timer_t timer;
	unsigned handles; /* not closed yet */
	struct waiter start;
	struct waiter waiters[WAITERS_MAX];
	unsigned waiter_count;
	void *subscribers[WAITERS_MAX];
	unsigned subscriber_count;
	json_t *report; /* final */
};

struct sessions {
	uv_loop_t *loop;
	struct session_callbacks cb;
	struct session *first; /* newest first */
	unsigned running, ended;
	bool shutting_down;
	struct metrics metrics;
};

int sessions_create(struct sessions **out, uv_loop_t *loop,
		    const struct session_callbacks *cb)
{
	struct sessions *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->cb = *cb;
	*out = s;
	return 0;
}

static void session_free(struct session *one)
{
	json_decref(one->params);
	json_decref(one->report);
	options_free(&one->options);
	free(one);
}

void sessions_destroy(struct sessions *s)
{
	struct session *one, *next;

	if (!s)
		return;
	for (one = s->first; one; one = next) {
		next = one->next;
		session_free(one);
	}
	free(s);
}

/* ---- the end ---- */

static void drop(struct sessions *s, struct session *gone)
{
	struct session **at = &s->first;

	while (*at && *at != gone)
		at = &(*at)->next;
	if (*at)
		*at = gone->next;
	session_free(gone);
}

/* Of many ended ones the oldest go. */
static void prune(struct sessions *s)
{
	struct session *one, *oldest;

	while (s->ended > ENDED_KEPT) {
		oldest = NULL;
		for (one = s->first; one; one = one->next)
			if (one->phase == PHASE_ENDED && !one->handles)
				oldest = one;
		if (!oldest)
			return;
		s->ended--;
		drop(s, oldest);
	}
}

static void ended(struct session *one)
{
	struct sessions *s = one->all;
	unsigned i;

	one->report = report_json(&one->job);
	metrics_add(&s->metrics, one->job.snap, one->job.failure.code);
	log_say(one->job.failure.code ? LOG_ERROR : LOG_INFO,
		"snapshot %s of process %d: %s", one->id[0] ? one->id : "-",
		one->options.pid,
		one->job.failure.code ? one->job.failure.text : "complete");
	job_close(&one->job);
	one->phase = PHASE_ENDED;
	s->running--;
	s->ended++;
	for (i = 0; i < one->waiter_count; i++)
		if (one->waiters[i].client)
			s->cb.answer(one->waiters[i].client, one->waiters[i].id,
				     json_incref(one->report), NULL);
		else
			json_decref(one->waiters[i].id);
	one->waiter_count = 0;
	for (i = 0; i < one->subscriber_count; i++)
		if (one->subscribers[i])
			s->cb.notify(one->subscribers[i], "snapshot.ended",
				     json_incref(one->report));
	one->subscriber_count = 0;
	if (s->shutting_down && !s->running)
		s->cb.empty(s->cb.user_data);
	prune(s);
}

static void on_closed(uv_handle_t *h)
{
	struct session *one = h->data;

	if (!--one->handles)
		ended(one);
}

static void close_handles(struct session *one)
{
	uv_close((uv_handle_t *)&one->poll, on_closed);
	uv_close((uv_handle_t *)&one->timer, on_closed);
}

/* ---- while it runs ---- */

static void on_ready(uv_poll_t *poll, int status, int events)
{
	struct session *one = poll->data;
	int err = snap_process(one->job.snap);

	(void)status;
	(void)events;
	if (err == -EINPROGRESS)
		return;
	if (err)
		failure_library(&one->job.failure);
	close_handles(one);
}

static void on_timer(uv_timer_t *timer)
{
	struct session *one = timer->data;
	unsigned i;

	for (i = 0; i < one->subscriber_count; i++)
		if (one->subscribers[i])
			one->all->cb.notify(one->subscribers[i],
					    "snapshot.progress",
					    session_report(one));
}

static int watch(struct session *one)
{
	uv_loop_t *loop = one->all->loop;
	int err = uv_poll_init(loop, &one->poll, snap_fd(one->job.snap));

	if (err)
		return err;
	uv_timer_init(loop, &one->timer);
	one->handles = 2;
	one->poll.data = one->timer.data = one;
	uv_timer_start(&one->timer, on_timer, PROGRESS_MS, PROGRESS_MS);
	err = uv_poll_start(&one->poll, UV_READABLE, on_ready);
	if (err)
		close_handles(one);
	return err;
}

/* ---- the beginning ---- */

static void work(uv_work_t *w)
{
	struct session *one = w->data;

	one->begin_err = job_prepare(&one->job);
	if (!one->begin_err)
		one->begin_err = job_begin(&one->job);
}

static void answer_start(struct session *one)
{
	struct sessions *s = one->all;
	json_t *result = NULL;

	if (!one->begin_err)
		result = json_pack("{s:s}", "id", one->id);
	if (one->start.client) {
		s->cb.answer(one->start.client, one->start.id, result,
			     &one->job.failure);
	} else {
		json_decref(result);
		json_decref(one->start.id);
	}
	one->start.client = NULL;
}

static void begun(uv_work_t *w, int status)
{
	struct session *one = w->data;

	(void)status;
	if (one->job.snap && snap_state(one->job.snap) != SNAP_STATE_NEW)
		report_id(one->job.snap, one->id, sizeof(one->id));
	if (!one->begin_err && watch(one))
		one->begin_err = failure_set(&one->job.failure, EXIT_FAILED,
					     "cannot watch the snapshot");
	answer_start(one);
	if (one->begin_err) {
		if (one->job.snap)
			snap_cancel(one->job.snap);
		if (!one->handles)
			ended(one);
		return;
	}
	one->phase = PHASE_RUNNING;
	log_say(LOG_INFO, "snapshot %s of process %d begun", one->id,
		one->options.pid);
	if (one->cancelled || one->all->shutting_down)
		snap_cancel(one->job.snap);
}

/* ---- requests ---- */

static int set_option(struct options *o, const char *key, json_t *value,
		      struct failure *f)
{
	char name[32], number[32];
	const char *text = json_string_value(value);
	char *at;

	snprintf(name, sizeof(name), "%s", key);
	for (at = name; *at; at++)
		if (*at == '_')
			*at = '-';
	if (json_is_integer(value)) {
		snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
			 json_integer_value(value));
		text = number;
	}
	if (!text || !strcmp(name, "progress") || !strcmp(name, "listen") ||
	    strstr(name, "-cmd"))
		return failure_set(f, EXIT_USAGE,
				   "%s: give a string or a number", key);
	return options_set(o, name, text, f);
}

static int set_ranges(struct options *o, json_t *list, struct failure *f)
{
	json_t *one;
	size_t i;

	if (!json_is_array(list))
		return failure_set(f, EXIT_USAGE,
				   "ranges: give a list of \"0x...-0x...\"");
	json_array_foreach(list, i,
			   one) if (options_set(o, "range",
						json_is_string(one)
							? json_string_value(one)
							: "",
						f)) return -1;
	return 0;
}

/* The strings stay @params'. */
static int read_params(struct options *o, json_t *params, struct failure *f)
{
	const char *key;
	json_t *value;

	options_init(o);
	o->progress = PROGRESS_NONE;
	json_object_foreach(
		params, key,
		value) if (!strcmp(key, "ranges")
				   ? set_ranges(o, value, f)
				   : set_option(o, key, value, f)) return -1;
	if (!o->pid)
		return failure_set(f, EXIT_USAGE, "pid is missing");
	if (!o->output || o->output[0] != '/')
		return failure_set(f, EXIT_USAGE,
				   "output: give an absolute path");
	return 0;
}

static int may_start(struct sessions *s, const struct options *o,
		     struct failure *f)
{
	struct session *one;

	if (s->shutting_down)
		return failure_set(f, EXIT_REFUSED, "the daemon is ending");
	if (s->running >= RUNNING_MAX)
		return failure_set(f, EXIT_REFUSED,
				   "%u snapshots are being taken: wait for one",
				   s->running);
	for (one = s->first; one; one = one->next)
		if (one->phase != PHASE_ENDED && one->options.pid == o->pid)
			return failure_set(f, EXIT_REFUSED,
					   "process %d is being saved already",
					   o->pid);
	return 0;
}

int sessions_start(struct sessions *s, json_t *params, struct waiter w,
		   struct failure *f)
{
	struct session *one = calloc(1, sizeof(*one));

	if (!one)
		return failure_set(f, EXIT_FAILED, "no memory for a snapshot");
	one->all = s;
	one->params = json_incref(params);
	one->job.options = &one->options;
	one->work.data = one;
	if (read_params(&one->options, params, f) ||
	    may_start(s, &one->options, f) ||
	    uv_queue_work(s->loop, &one->work, work, begun)) {
		failure_set(f, EXIT_FAILED, "cannot start a thread");
		session_free(one);
		return -1;
	}
	one->start = w;
	one->next = s->first;
	s->first = one;
	s->running++;
	return 0;
}

struct session *sessions_find(struct sessions *s, const char *id)
{
	struct session *one;

	for (one = s->first; one; one = one->next)
		if (id && one->id[0] && !strcmp(one->id, id))
			return one;
	return NULL;
}

json_t *session_report(const struct session *one)
{
	if (one->report)
		return json_incref(one->report);
	return report_json(&one->job);
}

void session_cancel(struct session *one)
{
	if (one->phase == PHASE_RUNNING)
		snap_cancel(one->job.snap);
	one->cancelled = true;
}

void session_wait(struct session *one, struct waiter w)
{
	struct failure f = {0};

	if (one->phase == PHASE_ENDED) {
		one->all->cb.answer(w.client, w.id, session_report(one), NULL);
	} else if (one->waiter_count == WAITERS_MAX) {
		failure_set(&f, EXIT_REFUSED, "too many wait for snapshot %s",
			    one->id);
		one->all->cb.answer(w.client, w.id, NULL, &f);
	} else {
		one->waiters[one->waiter_count++] = w;
	}
}

int session_subscribe(struct session *one, void *client)
{
	if (one->subscriber_count == WAITERS_MAX)
		return -1;
	one->subscribers[one->subscriber_count++] = client;
	return 0;
}

json_t *sessions_list(struct sessions *s)
{
	static const char *const phases[] = {"beginning", "running", "ended"};
	json_t *list = json_array();
	struct session *one;

	for (one = s->first; one; one = one->next)
		json_array_append_new(
			list, json_pack("{s:s,s:i,s:s,s:s}", "id", one->id,
					"pid", one->options.pid, "output",
					one->options.output, "phase",
					phases[one->phase]));
	return list;
}

char *sessions_metrics(struct sessions *s)
{
	struct metrics now = s->metrics;
	struct session *one;

	for (one = s->first; one; one = one->next)
		if (one->phase == PHASE_RUNNING)
			metrics_add_running(&now, one->job.snap);
	return metrics_text(&now, s->running);
}

static void forget_in(struct session *one, void *client)
{
	unsigned i;

	if (one->start.client == client)
		one->start.client = NULL;
	for (i = 0; i < one->waiter_count; i++)
		if (one->waiters[i].client == client)
			one->waiters[i].client = NULL;
	for (i = 0; i < one->subscriber_count; i++)
		if (one->subscribers[i] == client)
			one->subscribers[i] = NULL;
}

void sessions_forget(struct sessions *s, void *client)
{
	struct session *one;

	for (one = s->first; one; one = one->next)
		forget_in(one, client);
}

void sessions_shut_down(struct sessions *s)
{
	struct session *one;

	s->shutting_down = true;
	for (one = s->first; one; one = one->next)
		session_cancel(one);
	if (!s->running)
		s->cb.empty(s->cb.user_data);
}

// SPDX-License-Identifier: MIT
/*
 * Writes an image: header first, frames as they come, index and footer last.
 *
 * How it works.  writer_submit() appends to a queue; one thread takes frames
 * from it, gives each its place in the file and hands it to a backend, which
 * brings it back through frame_done() when it is written.  The thread does all
 * I/O from the open to the rename, so that SIGPIPE and SIGXFSZ can only hit a
 * thread that has them blocked, and makes the backend, as an io_uring belongs
 * to the thread that uses it.  It sleeps in one place, wait_for_work(), with
 * `sleeping` set; whoever gives it something to do clears that and wakes it, so
 * a busy writer costs the others no system call.
 *
 * The first failure sticks: its text is kept for writer_finish(), the sink is
 * told, and from then on frames only go back to the pool.
 *
 * Lock order: writer.lock is not held while the pool, the sink or a backend is
 * called.
 */
#include "writer.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "output.h"
#include "sys.h"
#include "tail.h"
#include "thread.h"
#include "writer_backend.h"

struct writer {
	struct bufpool *pool;
	struct failure_sink sink;
	struct output output;		   /* fd -1: a stream or nothing */
	char *name;			   /* for texts */
	const struct writer_options *opts; /* only while writer_open() runs */
	int stream_fd;
	unsigned flags;
	uint64_t bandwidth;
	int event_fd;
	struct writer_counters counters;
	atomic_bool cancelled;
	pthread_t thread;

	pthread_mutex_t lock; /* down to `text` */
	pthread_cond_t wake;  /* the thread has something to do */
	pthread_cond_t news;  /* `ready` or `finished` has changed */
	struct buf *first, *last;
	void *head;
	size_t head_len;
	const struct writer_totals *totals; /* writer_finish() was called */
	bool sleeping;
	bool stopping;
	bool ready; /* the backend was made, or `result` says why not */
	bool finished;
	int result;
	enum snap_failure failure;
	char text[ERROR_TEXT_MAX];

	/* The thread's own. */
	struct backend *backend;
	int err; /* the first failure */
	uint64_t offset;
	uint64_t allowed_ns; /* when the next write may start: bandwidth */
	struct tail tail;
};

/* ---- failures ---- */

static void set_failure_text(const struct writer *w, int err)
{
	switch (err) {
	case -ECANCELED:
		error_set(err, SNAP_FAILURE_CANCELLED, "cancelled");
		break;
	case -EPIPE:
		error_set(err, SNAP_FAILURE_OUTPUT,
			  "cannot write %s: the reader of the stream went away",
			  w->name);
		break;
	case -ENOSPC:
	case -EDQUOT:
		error_set(err, SNAP_FAILURE_OUTPUT,
			  "cannot write %s: no room left on its file system%s",
			  w->name, err == -EDQUOT ? " (quota)" : "");
		break;
	default:
		error_sys(err, SNAP_FAILURE_OUTPUT, "cannot write %s", w->name);
	}
}

/* Keep the failure whose text is this thread's current one. */
static void keep_failure(struct writer *w, int err)
{
	if (w->err)
		return;
	w->err = err;
	pthread_mutex_lock(&w->lock);
	w->failure = error_failure();
	snprintf(w->text, sizeof(w->text), "%s", error_text());
	pthread_mutex_unlock(&w->lock);
	if (err != -ECANCELED)
		failure_report(&w->sink, err);
}

static void write_failed(struct writer *w, int err)
{
	if (w->err)
		return;
	set_failure_text(w, err);
	keep_failure(w, err);
}

/* Whether writing still makes sense. */
static bool alive(struct writer *w)
{
	if (!w->err && atomic_load(&w->cancelled))
		write_failed(w, -ECANCELED);
	return !w->err;
}

/* ---- waking and sleeping ---- */

static void signal_event(struct writer *w)
{
	static const uint64_t one = 1;

	atomic_fetch_add(&w->counters.syscalls, 1);
	sys_write(w->event_fd, &one, sizeof(one));
}

/* With the lock held, after something was given to the thread. */
static void wake_thread(struct writer *w)
{
	if (!w->sleeping)
		return;
	w->sleeping = false;
	if (w->backend->ops->sleep)
		signal_event(w);
	else
		pthread_cond_signal(&w->wake);
}

static void wait_for_work(struct writer *w)
{
	w->sleeping = true;
	if (w->backend->ops->sleep) {
		pthread_mutex_unlock(&w->lock);
		w->backend->ops->sleep(w->backend);
		pthread_mutex_lock(&w->lock);
	} else {
		pthread_cond_wait(&w->wake, &w->lock);
	}
	w->sleeping = false;
}

static void drain(struct writer *w)
{
	if (w->backend->ops->drain)
		w->backend->ops->drain(w->backend);
}

/*
 * The bandwidth limit: after each write, wait as long as it would have taken.
 * Writes in flight are brought home first, so that their buffers are not kept
 * from the guest for the time of the sleep.
 */
static void pace(struct writer *w, size_t len)
{
	uint64_t now;
	struct timespec t;

	if (!w->bandwidth)
		return;
	now = now_ns();
	if (w->allowed_ns > now) {
		drain(w);
		t.tv_sec = (time_t)(w->allowed_ns / 1000000000u);
		t.tv_nsec = (long)(w->allowed_ns % 1000000000u);
		pthread_mutex_lock(&w->lock);
		while (!atomic_load(&w->cancelled) &&
		       pthread_cond_timedwait(&w->wake, &w->lock, &t) !=
			       ETIMEDOUT)
			;
		pthread_mutex_unlock(&w->lock);
	}
	w->allowed_ns = max_u64(w->allowed_ns, now) +
			(uint64_t)((double)len * 1e9 / (double)w->bandwidth);
}

/* ---- the thread ---- */

static void frame_done(void *user_data, struct buf *b, int err)
{
	struct writer *w = user_data;

	if (err)
		write_failed(w, err);
	else
		atomic_fetch_add(&w->counters.bytes, b->frame_len);
	bufpool_put(w->pool, b);
}

static int write_plain(struct writer *w, const void *data, size_t len)
{
	int err;

	pace(w, len);
	if (!alive(w))
		return w->err;
	err = w->backend->ops->plain(w->backend, data, len, w->offset);
	if (err) {
		write_failed(w, err);
		return err;
	}
	w->offset += len;
	atomic_fetch_add(&w->counters.bytes, len);
	return 0;
}

static int write_head(struct writer *w)
{
	void *head;
	size_t len;
	int err = 0;

	pthread_mutex_lock(&w->lock);
	head = w->head;
	len = w->head_len;
	w->head = NULL;
	pthread_mutex_unlock(&w->lock);
	if (head)
		err = write_plain(w, head, len);
	free(head);
	return err;
}

static void write_frame(struct writer *w, struct buf *b)
{
	assert(is_aligned(b->frame_len, FORMAT_ALIGN));
	if (alive(w) && !write_head(w))
		pace(w, b->frame_len);
	b->entry.offset = w->offset;
	if (alive(w) && tail_add(&w->tail, &b->entry))
		keep_failure(w, -ENOMEM);
	if (!alive(w)) {
		bufpool_put(w->pool, b);
		return;
	}
	w->offset += b->frame_len;
	w->backend->ops->frame(w->backend, b);
}

/* The next frame, or NULL when there is none and none will come. */
static struct buf *next_frame(struct writer *w)
{
	struct buf *b;

	pthread_mutex_lock(&w->lock);
	while (!w->first && !w->totals && !w->stopping)
		wait_for_work(w);
	b = w->first;
	if (b) {
		w->first = b->next;
		b->next = NULL;
	}
	pthread_mutex_unlock(&w->lock);
	return b;
}

static int make_backend(struct writer *w)
{
	const struct backend base = {
		.fd = w->output.fd >= 0 ? w->output.fd : w->stream_fd,
		.direct = w->output.direct,
		.event_fd = w->event_fd,
		.cancelled = &w->cancelled,
		.pool = w->pool,
		.counters = &w->counters,
		.done = frame_done,
		.user_data = w,
	};

	if (base.fd < 0)
		return backend_null(&w->backend, &base);
	if (w->output.fd < 0)
		return backend_stream(&w->backend, &base);
	if (!(w->flags & SNAP_NO_IO_URING) &&
	    !backend_uring(&w->backend, &base))
		return 0;
	return backend_pwrite(&w->backend, &base);
}

/* Tell writer_open() or writer_finish(). */
static void announce(struct writer *w, bool *what, int result)
{
	pthread_mutex_lock(&w->lock);
	w->result = result;
	*what = true;
	pthread_cond_broadcast(&w->news);
	pthread_mutex_unlock(&w->lock);
}

static int write_tail(struct writer *w)
{
	size_t len;
	void *tail = tail_make(&w->tail, w->totals, w->offset, &len);
	int err;

	if (!tail) {
		keep_failure(w, -ENOMEM);
		return -ENOMEM;
	}
	err = write_plain(w, tail, len);
	free(tail);
	return err;
}

static int publish(struct writer *w)
{
	int err;

	if (w->output.fd < 0)
		return 0;
	err = output_sync(&w->output, w->offset);
	if (!err && !alive(w))
		return w->err;
	if (!err)
		err = output_publish(&w->output);
	if (err)
		keep_failure(w, err);
	return err;
}

/* Opening too is done here: fallocate() beyond RLIMIT_FSIZE is a SIGXFSZ. */
static int start(struct writer *w)
{
	int err = 0;

	if (w->opts->path)
		err = output_create(&w->output, w->opts->path, w->opts->flags,
				    w->opts->reserve);
	if (!err)
		err = make_backend(w);
	if (err) {
		w->failure = error_failure();
		snprintf(w->text, sizeof(w->text), "%s", error_text());
	}
	return err;
}

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	struct buf *b;
	int err;

	thread_yielding();
	err = start(w);
	announce(w, &w->ready, err);
	if (err)
		return NULL;
	while ((b = next_frame(w)))
		write_frame(w, b);
	drain(w);
	if (w->totals) {
		if (alive(w) && !write_head(w) && !write_tail(w))
			publish(w);
		announce(w, &w->finished, w->err);
	}
	w->backend->ops->destroy(w->backend);
	return NULL;
}

/* ---- the callers' side ---- */

static int wait_for_news(struct writer *w, const bool *what)
{
	int err;

	pthread_mutex_lock(&w->lock);
	while (!*what)
		pthread_cond_wait(&w->news, &w->lock);
	err = w->result;
	if (err)
		error_set(err, w->failure, "%s", w->text);
	pthread_mutex_unlock(&w->lock);
	return err;
}

static int start_thread(struct writer *w)
{
	pthread_condattr_t monotonic;
	int err;

	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&w->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_cond_init(&w->news, NULL);
	err = thread_start(&w->thread, "snap-writer", writer_main, w);
	if (!err) {
		err = wait_for_news(w, &w->ready);
		if (!err)
			return 0;
		pthread_join(w->thread, NULL);
	}
	pthread_cond_destroy(&w->news);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	return err;
}

int writer_open(struct writer **out, const struct writer_options *opts)
{
	struct writer *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return error_nomem("the writer");
	w->pool = opts->pool;
	w->sink = opts->sink;
	w->flags = opts->flags;
	w->bandwidth = opts->bandwidth;
	w->stream_fd = opts->path ? -1 : opts->fd;
	w->output.fd = -1;
	w->opts = opts;
	w->name = strdup(opts->path ? opts->path : "the output stream");
	if (!w->name) {
		err = error_nomem("the writer");
		goto free_writer;
	}
	w->event_fd = sys_eventfd(0);
	if (w->event_fd < 0) {
		err = error_sys(w->event_fd, SNAP_FAILURE_INTERNAL,
				"cannot make an eventfd");
		goto free_name;
	}
	err = start_thread(w);
	if (err)
		goto close_event;
	w->opts = NULL;
	*out = w;
	return 0;

close_event:
	output_release(&w->output);
	sys_close(w->event_fd);
free_name:
	free(w->name);
free_writer:
	free(w);
	return err;
}

void writer_head(struct writer *w, void *head, size_t len)
{
	assert(is_aligned(len, FORMAT_ALIGN));
	pthread_mutex_lock(&w->lock);
	assert(!w->head);
	w->head = head;
	w->head_len = len;
	pthread_mutex_unlock(&w->lock);
}

void writer_submit(struct writer *w, struct buf *b)
{
	b->next = NULL;
	pthread_mutex_lock(&w->lock);
	if (w->first)
		w->last->next = b;
	else
		w->first = b;
	w->last = b;
	wake_thread(w);
	pthread_mutex_unlock(&w->lock);
}

int writer_finish(struct writer *w, const struct writer_totals *totals)
{
	pthread_mutex_lock(&w->lock);
	w->totals = totals;
	wake_thread(w);
	pthread_mutex_unlock(&w->lock);
	return wait_for_news(w, &w->finished);
}

/* With the lock held: end every kind of wait of the thread. */
static void cancel(struct writer *w)
{
	atomic_store(&w->cancelled, true);
	w->sleeping = false;
	pthread_cond_broadcast(&w->wake);
	signal_event(w);
}

void writer_cancel(struct writer *w)
{
	pthread_mutex_lock(&w->lock);
	cancel(w);
	pthread_mutex_unlock(&w->lock);
}

void writer_close(struct writer *w)
{
	struct buf *b;

	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	cancel(w);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	while ((b = w->first)) {
		w->first = b->next;
		bufpool_put(w->pool, b);
	}
	output_release(&w->output);
	sys_close(w->event_fd);
	pthread_cond_destroy(&w->news);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	tail_free(&w->tail);
	free(w->head);
	free(w->name);
	free(w);
}

void writer_counts(const struct writer *w, uint64_t *bytes, uint64_t *writes,
		   uint64_t *syscalls)
{
	*bytes = atomic_load(&w->counters.bytes);
	*writes = atomic_load(&w->counters.writes);
	*syscalls = atomic_load(&w->counters.syscalls);
}

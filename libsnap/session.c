// SPDX-License-Identifier: MIT
/* The life of one snapshot. */
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "attach.h"
#include "audit.h"
#include "format.h"
#include "hazard.h"
#include "pausecopy.h"
#include "prearm.h"
#include "protect.h"
#include "sweep.h"
#include "sys.h"
#include "thread.h"

#define WORKERS_MAX 8u

/* Room for headers and the index beside the pages themselves. */
#define RESERVE_EXTRA (256 * KIB)

static void notify(struct snap *s)
{
	uint64_t one = 1;

	sys_write(s->notify_fd, &one, sizeof(one));
}

enum snap_state session_state(struct snap *s)
{
	enum snap_state state;

	pthread_mutex_lock(&s->lock);
	state = s->state;
	pthread_mutex_unlock(&s->lock);
	return state;
}

static void set_state(struct snap *s, enum snap_state state)
{
	pthread_mutex_lock(&s->lock);
	s->state = state;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	notify(s);
}

void session_fail(struct snap *s, int err)
{
	struct guest *g = &s->guest;
	uint64_t one = 1;

	pthread_mutex_lock(&s->lock);
	if (!s->err && s->state < SNAP_STATE_COMPLETE) {
		s->err = err;
		s->failure = error_failure();
		strcpy(s->text, error_text());
	}
	/* Before snap_begin() nobody runs the session's thread but we. */
	if (!s->beginning)
		s->go = true;
	pthread_cond_broadcast(&s->changed);
	atomic_store_explicit(&g->stop, true, memory_order_release);
	if (g->pool)
		bufpool_close(g->pool);
	if (s->writer)
		writer_cancel(s->writer);
	if (g->all_saved_fd >= 0)
		sys_write(g->all_saved_fd, &one, sizeof(one));
	pthread_mutex_unlock(&s->lock);
}

void session_end_new(struct snap *s)
{
	bool ended;

	pthread_mutex_lock(&s->lock);
	ended = s->state == SNAP_STATE_NEW;
	if (ended) {
		s->state = SNAP_STATE_CANCELLED;
		pthread_cond_broadcast(&s->changed);
	}
	pthread_mutex_unlock(&s->lock);
	if (ended)
		notify(s);
}

static void sink_fail(void *user_data, int err)
{
	session_fail(user_data, err);
}

void session_collect(struct snap *s)
{
	if (s->guest.pool)
		bufpool_get_waits(s->guest.pool, &s->waits);
	if (s->guest.encoder)
		s->zero_pages = encode_zero_pages(s->guest.encoder);
	if (s->writer)
		writer_counts(s->writer, &s->bytes_written, &s->write_calls,
			      &s->write_syscalls);
}

/* ---- taking everything down ---------------------------------------------- */

/* The guest first: unprotected, woken, its events read. */
static void release_guest(struct snap *s)
{
	struct guest *g = &s->guest;

	protect_release(g);
	watchdog_stop(s->watchdog);
	s->watchdog = NULL;
	fault_stop(s->fault);
	s->fault = NULL;
	protect_close(g);
	audit_destroy(g->audit);
	g->audit = NULL;
	if (g->uffd >= 0)
		sys_close(g->uffd);
	if (g->fdinfo >= 0)
		sys_close(g->fdinfo);
	if (g->pidfd >= 0)
		sys_close(g->pidfd);
	if (g->mem_fd >= 0)
		sys_close(g->mem_fd);
	g->uffd = g->fdinfo = g->pidfd = g->mem_fd = -1;
}

/* Then what only costs us. */
static void take_down(struct snap *s)
{
	struct guest *g = &s->guest;
	struct encoder *encoder;
	struct bufpool *pool;
	struct writer *writer;

	release_guest(s);
	pthread_mutex_lock(&s->lock);
	session_collect(s);
	encoder = g->encoder;
	writer = s->writer;
	pool = g->pool;
	g->encoder = NULL;
	s->writer = NULL;
	g->pool = NULL;
	pthread_mutex_unlock(&s->lock);
	encode_stop(encoder);
	writer_close(writer);
	bufpool_destroy(pool);
}

/* ---- the session's thread ------------------------------------------------ */

static void fill_tables(const struct snap *s, struct format_region *regions,
			struct format_state *states)
{
	uint32_t i;

	for (i = 0; i < s->guest.regions.count; i++) {
		const struct region *r = s->guest.regions.by_index[i];

		strcpy(regions[i].name, r->name);
		regions[i].start = r->start;
		regions[i].length = r->length;
		regions[i].guest_addr = r->guest_addr;
		regions[i].page_size = r->page_size;
	}
	for (i = 0; i < s->state_count; i++) {
		strcpy(states[i].name, s->states[i].name);
		states[i].length = s->states[i].length;
		states[i].data = s->states[i].data;
	}
}

/* Build the image's head and give it to the writer. */
static int write_head(struct snap *s)
{
	struct format_head h = {
		.created_unix_ns = s->created_unix_ns,
		.compress = s->opts.compress,
		.region_count = (uint32_t)s->guest.regions.count,
		.state_count = s->state_count,
	};
	struct format_region *regions;
	struct format_state *states;
	void *head = NULL;
	size_t size;

	memcpy(h.snapshot_id, s->id, sizeof(s->id));
	regions = calloc(h.region_count, sizeof(*regions));
	states = calloc(h.state_count + 1, sizeof(*states));
	if (regions && states) {
		fill_tables(s, regions, states);
		size = format_head_size(&h, states);
		/* O_DIRECT writes want it aligned. */
		head = aligned_alloc(FORMAT_ALIGN, size);
	}
	if (head) {
		format_put_head(head, &h, regions, states);
		writer_head(s->writer, head, size);
	}
	free(regions);
	free(states);
	return head ? 0 : error_nomem("the image's header");
}

static int finish_image(struct snap *s)
{
	struct guest *g = &s->guest;
	struct writer_totals totals = {0};
	size_t i;

	encode_drain(g->encoder);
	memcpy(totals.snapshot_id, s->id, sizeof(s->id));
	for (i = 0; i < g->regions.count; i++)
		totals.pages_total += region_pages(g->regions.by_index[i]);
	totals.pages_data = encode_data_pages(g->encoder);
	totals.pages_zero = encode_zero_pages(g->encoder);
	totals.pages_absent = stats_get(&g->stats.pages_absent);
	if (guest_stopping(g))
		return -ECANCELED; /* the first failure is noted */
	if (totals.pages_data + totals.pages_zero + totals.pages_absent !=
	    totals.pages_total)
		return error_set(-EIO, SNAP_FAILURE_INTERNAL,
				 "pages do not add up: an error of libsnap");
	return writer_finish(s->writer, &totals);
}

static bool wait_for_go(struct snap *s)
{
	bool failed;

	pthread_mutex_lock(&s->lock);
	while (!s->go)
		pthread_cond_wait(&s->changed, &s->lock);
	failed = s->err != 0;
	pthread_mutex_unlock(&s->lock);
	return !failed;
}

static int run_snapshot(struct snap *s)
{
	int err = sweep_run(&s->guest);

	if (err)
		return err;
	release_guest(s);
	set_state(s, SNAP_STATE_WRITING);
	return finish_image(s);
}

static void *session_thread(void *arg)
{
	struct snap *s = arg;
	int err = -ECANCELED;

	thread_yielding();
	if (wait_for_go(s)) {
		err = run_snapshot(s);
		if (err)
			session_fail(s, err);
	}
	take_down(s);
	pthread_mutex_lock(&s->lock);
	s->end_ns = now_ns();
	if (err)
		s->state = s->err == -ECANCELED ? SNAP_STATE_CANCELLED
						: SNAP_STATE_FAILED;
	else
		s->state = SNAP_STATE_COMPLETE;
	/* A cancel that came when the image had its name came too late. */
	if (!err)
		s->err = 0;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	notify(s);
	return NULL;
}

/* ---- prepare, begin, destroy --------------------------------------------- */

static int make_id(uint8_t id[16])
{
	if (getrandom(id, 16, 0) != 16)
		return error_sys(-errno, SNAP_FAILURE_INTERNAL, "getrandom");
	id[6] = (id[6] & 0x0f) | 0x40; /* RFC 4122, version 4 */
	id[8] = (id[8] & 0x3f) | 0x80;
	return 0;
}

static int check_stream(const struct snap *s)
{
	const struct snap_options *o = &s->opts;
	int flags = s->stream_flags;

	if (o->output || !o->output_fd)
		return 0;
	if (flags < 0)
		return error_set(flags, SNAP_FAILURE_OUTPUT,
				 "output_fd %d is not open", o->output_fd);
	if ((flags & O_ACCMODE) == O_RDONLY)
		return error_set(-EBADF, SNAP_FAILURE_OUTPUT,
				 "output_fd %d is not open for writing",
				 o->output_fd);
	return 0;
}

static int open_event_fds(struct guest *g)
{
	g->all_saved_fd = sys_eventfd(0);
	g->stop_fd = sys_eventfd(0);
	if (g->all_saved_fd < 0)
		return error_sys(g->all_saved_fd, SNAP_FAILURE_INTERNAL,
				 "eventfd");
	if (g->stop_fd < 0)
		return error_sys(g->stop_fd, SNAP_FAILURE_INTERNAL, "eventfd");
	return 0;
}

static int open_pipeline(struct snap *s)
{
	struct guest *g = &s->guest;
	uint64_t resident = protect_resident_bytes(g);
	unsigned workers = s->opts.workers;
	struct writer_options w = {
		.path = s->opts.output,
		.fd = s->opts.output_fd > 0 ? s->opts.output_fd : -1,
		.flags = s->opts.flags,
		.bandwidth = s->opts.bandwidth,
		.reserve = resident + resident / 64 + s->state_bytes +
			   RESERVE_EXTRA,
		.sink = g->sink,
	};
	struct encode_options e = {
		.compress = s->opts.compress,
		.level = s->opts.compress_level,
		.sink = g->sink,
	};
	int err;

	if (!workers)
		workers = (unsigned)min_u64(thread_cpus(), WORKERS_MAX);
	err = bufpool_create(&g->pool, s->opts.max_buffer,
			     encode_outputs(e.compress, workers));
	if (err)
		return err;
	w.pool = e.pool = g->pool;
	err = writer_open(&s->writer, &w);
	if (err)
		return err;
	e.writer = s->writer;
	e.workers = workers;
	memcpy(e.snapshot_id, s->id, sizeof(s->id));
	return encode_start(&g->encoder, &e);
}

static int start_threads(struct snap *s)
{
	int err = fault_start(&s->fault, &s->guest);

	if (!err)
		err = watchdog_start(&s->watchdog, &s->guest,
				     s->opts.fault_limit_ms);
	if (!err)
		err = thread_start(&s->thread, "snap-sweep", session_thread, s);
	s->thread_started = !err;
	return err;
}

/* Keep the text of a failure that is returned by a call as well. */
static int fail_call(struct snap *s, int err)
{
	char text[ERROR_TEXT_MAX];
	enum snap_failure failure = error_failure();

	strcpy(text, error_text());
	session_fail(s, err);
	if (s->thread_started)
		pthread_join(s->thread, NULL);
	else
		take_down(s);
	s->thread_started = false;
	set_state(s, SNAP_STATE_FAILED);
	return error_set(err, failure, "%s", text);
}

int session_prepare(struct snap *s)
{
	struct guest *g = &s->guest;
	uint64_t start = now_ns();
	int err;

	if (session_state(s) != SNAP_STATE_NEW)
		return error_set(-EBUSY, SNAP_FAILURE_USAGE,
				 "the snapshot is prepared already");
	g->sink = (struct failure_sink){sink_fail, s};
	err = make_id(s->id);
	if (!err && !g->regions.count)
		err = error_set(-EINVAL, SNAP_FAILURE_USAGE,
				"no region has been added");
	if (!err)
		err = check_stream(s);
	if (!err)
		err = open_event_fds(g);
	if (!err && g->pid)
		err = hazard_check(&g->regions, g->pid, s->opts.output,
				   s->opts.allow);
	if (!err)
		err = audit_create(&g->audit, s->opts.audit_percent);
	if (!err)
		err = protect_prepare(g);
	if (!err)
		err = open_pipeline(s);
	if (!err)
		err = start_threads(s);
	if (err)
		return fail_call(s, err);
	s->prepare_ns = now_ns() - start;
	set_state(s, SNAP_STATE_PREPARED);
	return 0;
}

static uint64_t real_time_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Whether arming may start; from then on a failure waits for its end. */
static int enter_begin(struct snap *s)
{
	int err = 0;

	pthread_mutex_lock(&s->lock);
	if (s->err)
		err = error_set(s->err, s->failure, "%s", s->text);
	else if (s->state != SNAP_STATE_PREPARED)
		err = error_set(-EBUSY, SNAP_FAILURE_USAGE,
				"the snapshot has begun already");
	else
		s->beginning = true;
	pthread_mutex_unlock(&s->lock);
	return err;
}

/* A thread in vfork(), or a machine that has too much to do: nothing was done
 * to the process yet, so that it can be tried again. */
#define STOP_TRIES 10
#define STOP_NAP_US 20000

static int stop_threads(struct attach *a)
{
	int err = attach_stop(a), tries;

	for (tries = 1; err == -ETIMEDOUT && tries < STOP_TRIES; tries++) {
		nap_us(STOP_NAP_US);
		err = attach_stop(a);
	}
	return err;
}

/* Protect and copy what has to be, with the threads of another process
 * standing meanwhile. */
static int reach_point(struct guest *g)
{
	int err = g->attach ? stop_threads(g->attach) : 0, resumed;

	if (err)
		return err;
	err = protect_arm(g);
	if (!err)
		err = audit_take(g->audit, g);
	if (!err)
		err = pausecopy_run(g);
	if (!g->attach)
		return err;
	if (err)
		protect_release(g);
	/* An early end of the stop, of which this tells, voids all. */
	resumed = attach_resume(g->attach);
	attach_close(g->attach);
	g->attach = NULL;
	return err ? err : resumed;
}

int session_prearm(struct snap *s)
{
	int err = 0;

	if (session_state(s) == SNAP_STATE_NEW)
		err = session_prepare(s);
	if (!err)
		err = enter_begin(s);
	if (err)
		return err;
	prearm_run(&s->guest);
	pthread_mutex_lock(&s->lock);
	s->beginning = false;
	if (s->err)
		err = error_set(s->err, s->failure, "%s", s->text);
	pthread_mutex_unlock(&s->lock);
	return err ? fail_call(s, err) : 0;
}

int session_begin(struct snap *s)
{
	uint64_t start;
	int err = 0;

	if (session_state(s) == SNAP_STATE_NEW)
		err = session_prepare(s);
	if (!err)
		err = enter_begin(s);
	if (err)
		return err;
	s->created_unix_ns = real_time_ns();
	start = now_ns();
	/* Before the first fault can hand a frame over. */
	err = write_head(s);
	if (!err)
		err = reach_point(&s->guest);
	pthread_mutex_lock(&s->lock);
	s->beginning = false;
	s->begin_ns = start;
	s->pause_ns = now_ns() - start;
	if (!err && s->err)
		err = error_set(s->err, s->failure, "%s", s->text);
	if (!err)
		s->state = SNAP_STATE_RUNNING;
	s->go = !err;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	if (err)
		return fail_call(s, err);
	notify(s);
	return 0;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		sys_close(fd);
}

void session_destroy(struct snap *s)
{
	uint32_t i;

	if (s->thread_started) {
		error_set(-ECANCELED, SNAP_FAILURE_CANCELLED, "cancelled");
		session_fail(s, -ECANCELED);
		pthread_join(s->thread, NULL);
	}
	close_fd(s->guest.all_saved_fd);
	close_fd(s->guest.stop_fd);
	close_fd(s->notify_fd);
	region_table_free(&s->guest.regions);
	for (i = 0; i < s->state_count; i++)
		free(s->states[i].data);
	free(s->states);
	free((char *)s->opts.output);
	pthread_mutex_destroy(&s->guest.unprotect_lock);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->changed);
	free(s);
}

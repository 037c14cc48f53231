// SPDX-License-Identifier: MIT
/* The fault thread: answers the guest's writes to pages not saved yet. */
#include "fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "coalesce.h"
#include "discard.h"
#include "prearm.h"
#include "protect.h"
#include "sys.h"
#include "thread.h"
#include "uffd.h"
#include "window.h"

#define READ_MAX 64u	/* messages in one read */
#define QUEUE_MAX 4096u /* threads of the guest that wait at once */

/* poll() that took longer slept: its message came just then. */
#define SLEPT_NS 5000u

/* An event is queued a moment before its caller falls asleep, and only then do
 * its arguments show. */
#define EVENT_TRIES 500u
#define EVENT_NAP_US 20u

/* Looks at threads that may be awake with an event queued. */
#define LOOKS_MAX 4u

/* A fault that cannot be answered yet. */
struct pending {
	uint64_t addr;
	uint64_t since; /* when its message became readable, at the latest */
};

/* A ring: in order of arrival. */
struct queue {
	struct pending items[QUEUE_MAX];
	unsigned first, count;
};

struct fault_thread {
	struct guest *g;
	struct capture capture;
	struct discard discard;
	struct window window;
	struct survey survey;
	pthread_t thread;
	struct uffd_msg msgs[READ_MAX];
	struct queue unbuffered; /* wait for a buffer */
	struct queue parked;	 /* wait for the kernel to let us unprotect */
	uint64_t drained_ns;	 /* when the queue was last seen empty */
	unsigned event_tries;	 /* looks at an event without its caller */
	bool in_a_row; /* events: the queue was not seen empty since the last */
	bool guest_ended;     /* the process of another's memory */
	bool drops_memory;    /* a thread was seen at it */
	bool discard_blocked; /* an event waits for a buffer */
};

static bool queue_push(struct queue *q, struct pending p)
{
	if (q->count == QUEUE_MAX)
		return false;
	q->items[(q->first + q->count++) % QUEUE_MAX] = p;
	return true;
}

static struct pending queue_pop(struct queue *q)
{
	struct pending p = q->items[q->first];

	q->first = (q->first + 1) % QUEUE_MAX;
	q->count--;
	return p;
}

static void fail(struct fault_thread *t, int err)
{
	if (err != -ECANCELED)
		failure_report(&t->g->sink, err);
}

static void too_many(struct fault_thread *t)
{
	fail(t,
	     error_set(-ENOBUFS, SNAP_FAILURE_INTERNAL,
		       "more than %u guest threads wait at once", QUEUE_MAX));
}

/* Copy what is not saved of a stretch that is one unit, or all present. */
static int copy_run(struct fault_thread *t, struct region *r,
		    struct page_run unit)
{
	uint64_t at = unit.first, end = unit.first + unit.count;
	struct page_run run;
	int err = 0;

	while (!err && at < end) {
		run = capture_take(&t->capture, r, at, end);
		if (run.count)
			err = capture_pages(&t->capture, r, run);
		at = run.first + run.count;
	}
	return err;
}

/* The same of one that is absent. */
static int note_absent(struct fault_thread *t, struct region *r,
		       struct page_run hole)
{
	uint64_t at = hole.first, end = hole.first + hole.count;
	struct page_run run;
	int err = 0;

	while (!err && at < end) {
		err = capture_reserve(&t->capture, 1);
		if (err)
			break;
		run = capture_take(&t->capture, r, at, end);
		if (run.count)
			capture_absent(&t->capture, r, run);
		at = run.first + run.count;
	}
	return err;
}

/* Copy a window, whose unit around the fault has been copied already: what
 * cannot be had without waiting is left to others. */
static int copy_window(struct fault_thread *t, struct region *r,
		       struct page_run window)
{
	const struct survey_piece *p;
	unsigned i;
	int err = survey_look(&t->survey, t->g, r, window);

	for (i = 0; i < t->survey.count && !err; i++) {
		p = &t->survey.pieces[i];
		if (pagestate_all_saved(&r->ps, p->run.first, p->run.count))
			continue;
		if (!p->present) {
			err = note_absent(t, r, p->run);
			continue;
		}
		err = capture_reserve(&t->capture, p->run.count);
		if (!err)
			err = copy_run(t, r, p->run);
	}
	return err == -EAGAIN ? 0 : err;
}

/* A page that is saved: unprotect it, with its saved neighbours. */
static int open_around(struct fault_thread *t, struct region *r, uint64_t page,
		       struct pending p)
{
	struct guest *g = t->g;
	int err = protect_open(g, r, coalesce_around(r, page));

	if (err == -EAGAIN) {
		if (!queue_push(&t->parked, p))
			too_many(t);
		return 0;
	}
	if (!err) {
		uint64_t now = now_ns();

		histogram_add(&g->stats.fault_ns, now - p.since);
		window_answered(&t->window, now);
	}
	return err;
}

/* A fault outside all regions: the mapping was moved, with its marks. */
static int open_stray(struct guest *g, uint64_t addr)
{
	int err = uffd_unprotect(g->uffd, align_down(addr, PAGE_BYTES),
				 PAGE_BYTES);

	return err == -EAGAIN ? err : 0;
}

static enum window_room window_room(struct fault_thread *t)
{
	unsigned all = bufpool_count(t->g->pool);
	unsigned unused = bufpool_free_count(t->g->pool);

	if (unused > all / 8)
		return WINDOW_ROOM_AMPLE;
	return unused > all / 16 ? WINDOW_ROOM_SHORT : WINDOW_ROOM_NONE;
}

/* More than @unit, where more faults are to be expected. */
static int copy_around(struct fault_thread *t, struct region *r, uint64_t page,
		       struct page_run unit)
{
	_Atomic uint8_t *heat = region_heat(r, page);
	uint8_t before = atomic_load_explicit(heat, memory_order_relaxed);
	struct page_run window;

	if (before < UINT8_MAX)
		atomic_store_explicit(heat, before + 1, memory_order_relaxed);
	window = window_around(&t->window, r, page, before, window_room(t));
	if (window.count <= unit.count)
		return 0;
	return copy_window(t, r, window);
}

/* A fault while the snapshot point is still to come; -EALREADY if it has. */
static int handle_early(struct fault_thread *t, struct region *r, uint64_t page,
			struct pending p)
{
	int err = prearm_fault(t->g, r, page);

	if (err == -EALREADY)
		return err;
	if (!err)
		histogram_add(&t->g->stats.fault_ns, now_ns() - p.since);
	else if (!queue_push(&t->parked, p))
		too_many(t);
	return 0;
}

/* 0: answered or queued elsewhere; -EAGAIN: no buffer. */
static int handle_fault(struct fault_thread *t, struct pending p)
{
	struct guest *g = t->g;
	struct region *r = region_find(&g->regions, p.addr);
	struct page_run unit;
	uint64_t page;
	int err;

	if (!r) {
		if (open_stray(g, p.addr) && !queue_push(&t->parked, p))
			too_many(t);
		return 0;
	}
	page = (p.addr - r->start) >> PAGE_SHIFT;
	if (!atomic_load_explicit(&g->armed, memory_order_acquire)) {
		err = handle_early(t, r, page, p);
		if (err != -EALREADY)
			return err;
	}
	/* A part of a huge page must not be opened alone: that splits it.  So
	 * what a discard has left of it, or the sweep has in hand, is taken
	 * too. */
	unit = capture_unit(g, r, page);
	if (!pagestate_all_saved(&r->ps, unit.first, unit.count)) {
		err = capture_reserve(&t->capture, unit.count);
		if (!err)
			err = copy_run(t, r, unit);
		if (!err)
			err = copy_around(t, r, page, unit);
		if (err)
			return err;
	}
	return open_around(t, r, page, p);
}

/* Answer @p or queue it behind those that wait for a buffer already. */
static void take_fault(struct fault_thread *t, struct pending p)
{
	int err = t->unbuffered.count ? -EAGAIN : handle_fault(t, p);

	if (err == -EAGAIN) {
		if (!queue_push(&t->unbuffered, p))
			too_many(t);
		else
			bufpool_fault_waiting(t->g->pool, 1);
	} else if (err) {
		fail(t, err);
	}
}

/* Those that wait for a buffer, in order, while there are buffers. */
static void retry_unbuffered(struct fault_thread *t)
{
	int err;

	while (t->unbuffered.count) {
		err = handle_fault(t, t->unbuffered.items[t->unbuffered.first]);
		if (err == -EAGAIN)
			return;
		queue_pop(&t->unbuffered);
		bufpool_fault_waiting(t->g->pool, -1);
		if (err)
			fail(t, err);
	}
}

/* Each parked unprotect once; those refused again park themselves. */
static void retry_parked(struct fault_thread *t)
{
	unsigned n = t->parked.count;
	int err;

	while (n--) {
		err = handle_fault(t, queue_pop(&t->parked));
		if (err)
			fail(t, err);
	}
}

static void handle_messages(struct fault_thread *t, int n, uint64_t since)
{
	int i;

	for (i = 0; i < n; i++) {
		const struct uffd_msg *m = &t->msgs[i];

		if (m->event != UFFD_EVENT_PAGEFAULT)
			continue; /* judged when it was read */
		stats_add(&t->g->stats.faults, 1);
		window_fault(&t->window, since);
		take_fault(t,
			   (struct pending){m->arg.pagefault.address, since});
	}
}

/* Under unprotect_lock, so that protect_arm(), which takes it, comes after the
 * judgement on an unmap that returned to its caller before. */
static void judge_events(struct fault_thread *t, int n)
{
	int i, err = 0;

	for (i = 0; i < n; i++) {
		if (t->msgs[i].event == UFFD_EVENT_PAGEFAULT ||
		    guest_stopping(t->g))
			continue;
		if (guest_capturing(t->g))
			err = discard_rescue(&t->discard, &t->msgs[i]);
		if (!err)
			err = discard_event(t->g, &t->msgs[i]);
		if (err)
			fail(t, err);
	}
}

/*
 * Read what may be read now: the faults that wait, or one event when there are
 * none and @events.  A larger read would go on to events that nobody has looked
 * at: the kernel gives faults first, then events (userfaultfd_ctx_read()).
 * g->unprotect_lock is held, or see read_messages().
 * Returns how many, 0 when an event or nothing is next, or -errno.
 */
static int read_counted(struct fault_thread *t, bool events)
{
	struct guest *g = t->g;
	uint64_t pending = 0;
	int n;

	stats_add(&g->stats.syscalls, 2);
	n = uffd_pending(g->fdinfo, &pending);
	if (!n && (pending || events))
		n = uffd_read(g->uffd, t->msgs,
			      pending ? (unsigned)min_u64(pending, READ_MAX)
				      : 1);
	judge_events(t, n);
	if (pending < READ_MAX)
		t->drained_ns = now_ns();
	return n == -EAGAIN ? 0 : n;
}

/*
 * The sweep may hold the lock over a whole unprotect, and be preempted in it; a
 * guest thread must not wait for that.  As long as this guest has not dropped
 * any memory the lock is not waited for: what it guards against is an event
 * that comes between the count and the read, in the very moment in which the
 * sweep wakes a counted waiter, and judge_events() finds that out.
 */
static int read_messages(struct fault_thread *t, bool events)
{
	struct guest *g = t->g;
	bool locked = true;
	int n;

	if (t->drops_memory || events || !guest_capturing(g))
		pthread_mutex_lock(&g->unprotect_lock);
	else
		locked = !pthread_mutex_trylock(&g->unprotect_lock);
	n = read_counted(t, events);
	if (locked)
		pthread_mutex_unlock(&g->unprotect_lock);
	return n;
}

static bool fault_waits(struct guest *g)
{
	uint64_t pending = 0;

	stats_add(&g->stats.syscalls, 1);
	return uffd_pending(g->fdinfo, &pending) || pending;
}

/*
 * Whether an event is queued now.  There is something to read, and it is no
 * fault: none waited before the question nor after it, and none can have come
 * and gone in between, as the sweep, which wakes waiters, is locked out.
 */
static bool event_waits(struct fault_thread *t)
{
	struct guest *g = t->g;
	struct pollfd p = {.fd = g->uffd, .events = POLLIN};
	bool waits;

	pthread_mutex_lock(&g->unprotect_lock);
	waits = !fault_waits(g) && sys_poll(&p, 1, 0) == 1 && !fault_waits(g);
	pthread_mutex_unlock(&g->unprotect_lock);
	return waits;
}

static int look_at_threads(struct fault_thread *t)
{
	unsigned looks = t->in_a_row ? LOOKS_MAX : 1;
	int err;

	do {
		/* It is queued a moment before it sleeps, perhaps on this CPU,
		 * and to look at a thread in between takes a tick. */
		nap_us(EVENT_NAP_US);
		err = discard_save(&t->discard);
	} while (!err && --looks && t->discard.running);
	return err;
}

/*
 * First save what the event will drop.  Events are read in the order in which
 * they were queued, each by a thread that sleeps until then.  So the thread of
 * the next one is asleep by the time its event is known to be there, and one
 * look at all threads from then on finds it, unless the event before has just
 * been read: that wakes all of them for a moment (userfaultfd_event_complete(),
 * on the one queue), and one that waits for a CPU is not seen.  That is what
 * discard_rescue() is for.
 */
static int read_event(struct fault_thread *t)
{
	int err = 0;

	if (guest_capturing(t->g)) {
		if (!event_waits(t))
			return 0;
		err = look_at_threads(t);
	}
	t->drops_memory |= t->discard.callers != 0;
	t->discard_blocked = err == -EAGAIN;
	if (t->discard_blocked)
		return 0;
	if (err)
		fail(t, err);
	else if (guest_capturing(t->g) && !t->discard.callers &&
		 t->event_tries++ < EVENT_TRIES)
		return 0;
	t->event_tries = 0;
	t->in_a_row = true;
	return read_messages(t, true);
}

static void serve(struct fault_thread *t, uint64_t since)
{
	int n = read_messages(t, false);

	if (!n)
		n = read_event(t);
	if (n < 0) {
		fail(t, error_sys(n, SNAP_FAILURE_INTERNAL,
				  "cannot read from userfaultfd"));
		return;
	}
	if (n > 0)
		atomic_store_explicit(&t->g->last_fault_ns, now_ns(),
				      memory_order_relaxed);
	handle_messages(t, n, since);
}

/* Sleep until there is something to do; true when it is to end. */
static bool wait_for_work(struct fault_thread *t, uint64_t *since)
{
	struct guest *g = t->g;
	struct pollfd fds[] = {
		{.fd = g->stop_fd, .events = POLLIN},
		{.fd = t->discard_blocked ? -1 : g->uffd, .events = POLLIN},
		{.fd = bufpool_fd(g->pool), .events = POLLIN},
		{.fd = t->guest_ended ? -1 : g->pidfd, .events = POLLIN},
	};
	uint64_t before = now_ns(), count;
	bool retry = t->parked.count || t->discard_blocked;

	stats_add(&g->stats.syscalls, 1);
	sys_poll(fds, ARRAY_SIZE(fds), retry ? 1 : -1);
	*since = now_ns();
	if (*since - before < SLEPT_NS)
		*since = t->drained_ns;
	else
		t->in_a_row = false; /* it slept: the queue was empty */
	if (!fds[1].revents)
		t->in_a_row = false;
	if (fds[2].revents)
		sys_read(fds[2].fd, &count, sizeof(count));
	if (fds[3].revents) {
		t->guest_ended = true;
		if (!guest_stopping(g) && atomic_load(&g->unsaved))
			fail(t, guest_gone(g));
	}
	return fds[0].revents != 0;
}

/* For the watchdog.  @now: since when there may be a message to read, or 0. */
static void note_oldest(struct fault_thread *t, uint64_t now)
{
	uint64_t oldest = now;

	if (t->unbuffered.count)
		oldest = t->unbuffered.items[t->unbuffered.first].since;
	else if (t->parked.count)
		oldest = t->parked.items[t->parked.first].since;
	atomic_store_explicit(&t->g->fault_since_ns, oldest,
			      memory_order_relaxed);
}

static void *run(void *arg)
{
	struct fault_thread *t = arg;
	uint64_t since;

	thread_urgent();
	t->drained_ns = now_ns();
	while (!wait_for_work(t, &since)) {
		note_oldest(t, since);
		serve(t, since);
		retry_unbuffered(t);
		retry_parked(t);
		note_oldest(t, 0);
	}
	/* Nothing is registered any more; who waits for an event of his to be
	 * read goes on when it is. */
	while (uffd_read(t->g->uffd, t->msgs, READ_MAX) > 0)
		;
	bufpool_fault_waiting(t->g->pool, -(int)t->unbuffered.count);
	return NULL;
}

int fault_start(struct fault_thread **out, struct guest *g)
{
	struct fault_thread *t = malloc(sizeof(*t));
	int err;

	if (!t)
		return error_nomem("the fault thread");
	memset(t, 0, sizeof(*t)); /* touched now, not at the first fault */
	t->g = g;
	t->capture.g = g;
	t->capture.by_fault = true;
	err = discard_open(&t->discard, &t->capture);
	if (!err)
		err = thread_start(&t->thread, "snap-fault", run, t);
	if (err) {
		discard_close(&t->discard);
		free(t);
		return err;
	}
	*out = t;
	return 0;
}

void fault_stop(struct fault_thread *t)
{
	uint64_t one = 1;

	if (!t)
		return;
	sys_write(t->g->stop_fd, &one, sizeof(one));
	pthread_join(t->thread, NULL);
	capture_submit(&t->capture);
	discard_close(&t->discard);
	free(t);
}

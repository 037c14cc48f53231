// SPDX-License-Identifier: MIT
/*
 * A guest that is threads of this process: one or more work, one probes.
 *
 * How it works.  A thread says that it is inside before each access to the RAM
 * and that it is outside afterwards.  Who pauses the guest closes the gate and
 * waits until nobody is inside; who finds the gate closed goes outside again
 * and sleeps.  Both store first and look then, in one order for all (seq_cst),
 * so one of the two sees the other.  A sleeping probe holds no pause up.
 */
#include "guest.h"

#include "bench.h"
#include "probe.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define THREADS_MAX 16

struct member {
	struct guest *g;
	pthread_t thread;
	atomic_bool inside;
	unsigned index;
} __attribute__((aligned(128)));

struct process {
	struct member members[THREADS_MAX + 1]; /* the last one probes */
	pthread_mutex_t lock;
	pthread_cond_t opened;
	atomic_bool closed; /* written under the lock */
};

static void enter(struct process *p, struct member *m)
{
	for (;;) {
		atomic_store(&m->inside, true);
		if (!atomic_load(&p->closed))
			return;
		atomic_store(&m->inside, false);
		pthread_mutex_lock(&p->lock);
		while (atomic_load(&p->closed))
			pthread_cond_wait(&p->opened, &p->lock);
		pthread_mutex_unlock(&p->lock);
	}
}

static void leave(struct member *m)
{
	atomic_store_explicit(&m->inside, false, memory_order_release);
}

static void think(uint64_t until)
{
	while (ticks() < until)
		__builtin_ia32_pause();
}

static void *work_main(void *arg)
{
	struct member *m = arg;
	struct process *p = m->g->priv;
	struct station *s = m->g->station;
	struct pattern_state state = {.ram = s->ram,
				      .pages = s->pages,
				      .n = s->pages / 3 * m->index,
				      .random = 88172645463325252u + m->index};
	uint64_t last = ticks(), now;

	while (!peek(&s->ending)) {
		enter(p, m);
		pattern_step(&state, s->pattern);
		leave(m);
		now = ticks();
		station_stall(s, last, now);
		last = now;
		__atomic_fetch_add(&s->work, 1, __ATOMIC_RELAXED);
		think(now + s->think);
	}
	if (state.exec_max > peek(&s->exec_max))
		poke(&s->exec_max, state.exec_max);
	return NULL;
}

static void sleep_until(const struct station *s, uint64_t due)
{
	uint64_t now = ticks();
	struct timespec nap = {0};

	if (due <= now)
		return;
	nap.tv_nsec = (long)ticks_to_ns(due - now, s->scale);
	nanosleep(&nap, NULL);
}

static void *probe_main(void *arg)
{
	struct member *m = arg;
	struct process *p = m->g->priv;
	struct station *s = m->g->station;
	struct probe probe = {.due = ticks(), .random = 0xdeadbeefcafef00du};

	/* The default slack of 50 us is as long as the pace. */
	prctl(PR_SET_TIMERSLACK, 1);
	while (!peek(&s->ending)) {
		sleep_until(s, probe.due);
		enter(p, m);
		probe_touch(&probe, s);
		leave(m);
	}
	return NULL;
}

static void process_create(struct guest *g)
{
	struct process *p = aligned_alloc(128, sizeof(*p));

	if (!p)
		die("out of memory");
	*p = (struct process){0};
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->opened, NULL);
	for (unsigned i = 0; i <= THREADS_MAX; i++) {
		p->members[i].g = g;
		p->members[i].index = i;
	}
	g->priv = p;
}

static void process_destroy(struct guest *g)
{
	free(g->priv);
}

/* How many of the members work: none of an idle guest. */
static unsigned workers(const struct guest *g)
{
	if (g->threads > THREADS_MAX)
		die("at most %d threads", THREADS_MAX);
	return g->station->pattern == PATTERN_IDLE ? 0 : g->threads;
}

static void process_start(struct guest *g)
{
	struct process *p = g->priv;

	for (unsigned i = 0; i < workers(g); i++)
		if (pthread_create(&p->members[i].thread, NULL, work_main,
				   &p->members[i]))
			die("cannot start a thread");
	if (pthread_create(&p->members[THREADS_MAX].thread, NULL, probe_main,
			   &p->members[THREADS_MAX]))
		die("cannot start a thread");
}

static void process_stop(struct guest *g)
{
	struct process *p = g->priv;

	poke(&g->station->ending, 1);
	for (unsigned i = 0; i < workers(g); i++)
		pthread_join(p->members[i].thread, NULL);
	pthread_join(p->members[THREADS_MAX].thread, NULL);
}

static void process_pause(struct guest *g)
{
	struct process *p = g->priv;

	pthread_mutex_lock(&p->lock);
	atomic_store(&p->closed, true);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i <= THREADS_MAX; i++)
		while (atomic_load(&p->members[i].inside))
			sched_yield();
}

static void process_resume(struct guest *g)
{
	struct process *p = g->priv;

	pthread_mutex_lock(&p->lock);
	atomic_store(&p->closed, false);
	pthread_cond_broadcast(&p->opened);
	pthread_mutex_unlock(&p->lock);
}

const struct guest_ops guest_process = {
	.name = "process",
	.create = process_create,
	.start = process_start,
	.stop = process_stop,
	.pause = process_pause,
	.resume = process_resume,
	.destroy = process_destroy,
};

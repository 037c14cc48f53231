// SPDX-License-Identifier: MIT
/* A guest's stand-in: threads that write a sequence which can be replayed. */
#include "mutator.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define STUCK_S 30

struct writer {
	struct mutator *m;
	pthread_t thread;
	unsigned index;
	uint64_t count; /* under the lock while parked */
};

struct mutator {
	struct mutator_config cfg;
	pthread_mutex_t lock;
	pthread_cond_t parked_changed, gate_changed;
	atomic_bool gate; /* closed; written under the lock */
	bool ending;
	unsigned parked;
	struct writer writers[MUTATOR_THREADS_MAX];
};

static inline uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdu;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53u;
	return x ^ (x >> 33);
}

static inline uint64_t scale(uint64_t h, uint64_t to)
{
	return (uint64_t)(((unsigned __int128)h * to) >> 64);
}

static inline uint64_t place(const struct mutator_config *c, unsigned t,
			     uint64_t n)
{
	uint64_t slots = c->len / 8 / c->threads;
	uint64_t h = mix(c->seed + t * 0x9e3779b97f4a7c15u + n);
	uint64_t slot;

	switch (c->pattern) {
	case MUTATE_SEQUENTIAL:
		slot = (n * (512 / c->threads) + (h & 63)) % slots;
		break;
	case MUTATE_HOT:
		slot = scale(mix(h), n % 10 && slots > 10 ? slots / 10 : slots);
		break;
	default:
		slot = scale(h, slots);
	}
	return slot * c->threads + t;
}

static inline uint64_t value(const struct mutator_config *c, unsigned t,
			     uint64_t n)
{
	return mix(c->seed ^ ((uint64_t)(t + 1) << 56) ^ n);
}

/*
 * Not instrumented: the library reads a page while it is write-protected, an
 * order that the thread sanitizer knows nothing of.
 */
__attribute__((noinline, no_sanitize("thread"))) static void
steps(const struct mutator_config *c, uint8_t *base, unsigned t, uint64_t from,
      uint64_t to)
{
	volatile uint64_t *words = (volatile uint64_t *)(void *)base;

	for (uint64_t n = from; n < to; n++)
		words[place(c, t, n)] = value(c, t, n);
}

/* Returns whether to go on. */
static bool park(struct writer *w)
{
	struct mutator *m = w->m;
	bool more;

	pthread_mutex_lock(&m->lock);
	m->parked++;
	pthread_cond_signal(&m->parked_changed);
	while (m->gate && !m->ending)
		pthread_cond_wait(&m->gate_changed, &m->lock);
	m->parked--;
	more = !m->ending;
	pthread_mutex_unlock(&m->lock);
	return more;
}

static void *writer_main(void *arg)
{
	struct writer *w = arg;
	const struct mutator_config *c = &w->m->cfg;
	struct timespec nap = {.tv_nsec = c->nap_us * 1000L};

	for (;;) {
		if (atomic_load_explicit(&w->m->gate, memory_order_relaxed) &&
		    !park(w))
			return NULL;
		steps(c, c->addr, w->index, w->count, w->count + MUTATOR_BATCH);
		w->count += MUTATOR_BATCH;
		if (c->nap_us)
			nanosleep(&nap, NULL);
	}
}

int mutator_start(struct mutator **out, const struct mutator_config *cfg)
{
	struct mutator *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->cfg = *cfg;
	m->gate = cfg->closed;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->parked_changed, NULL);
	pthread_cond_init(&m->gate_changed, NULL);
	for (unsigned i = 0; i < cfg->threads; i++) {
		struct writer *w = &m->writers[i];

		w->m = m;
		w->index = i;
		if (pthread_create(&w->thread, NULL, writer_main, w) != 0)
			abort();
	}
	*out = m;
	return 0;
}

int mutator_pause(struct mutator *m, struct mutator_counts *at)
{
	struct timespec deadline;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += STUCK_S;
	pthread_mutex_lock(&m->lock);
	m->gate = true;
	while (m->parked < m->cfg.threads && !err)
		err = pthread_cond_timedwait(&m->parked_changed, &m->lock,
					     &deadline);
	*at = (struct mutator_counts){0};
	for (unsigned i = 0; i < m->cfg.threads && !err; i++)
		at->n[i] = m->writers[i].count;
	pthread_mutex_unlock(&m->lock);
	return -err;
}

void mutator_resume(struct mutator *m)
{
	pthread_mutex_lock(&m->lock);
	m->gate = false;
	pthread_cond_broadcast(&m->gate_changed);
	pthread_mutex_unlock(&m->lock);
}

int mutator_stop(struct mutator *m, struct mutator_counts *at)
{
	int err = mutator_pause(m, at);

	if (err)
		return err;
	pthread_mutex_lock(&m->lock);
	m->ending = true;
	pthread_cond_broadcast(&m->gate_changed);
	pthread_mutex_unlock(&m->lock);
	for (unsigned i = 0; i < m->cfg.threads; i++)
		pthread_join(m->writers[i].thread, NULL);
	pthread_mutex_destroy(&m->lock);
	pthread_cond_destroy(&m->parked_changed);
	pthread_cond_destroy(&m->gate_changed);
	free(m);
	return 0;
}

void mutator_replay(const struct mutator_config *cfg, uint8_t *model,
		    const struct mutator_counts *from,
		    const struct mutator_counts *to)
{
	for (unsigned t = 0; t < cfg->threads; t++)
		steps(cfg, model, t, from->n[t], to->n[t]);
}

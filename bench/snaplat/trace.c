// SPDX-License-Identifier: MIT
/* Watches one save from before to after, for the plots over time. */
#include "compare.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_NS 1000000
#define SAMPLES_MAX 20000u

struct watch {
	struct guest *g;
	pthread_t thread;
	atomic_bool ending;
	unsigned n;
	struct sample samples[SAMPLES_MAX];
};

static void *watch_main(void *arg)
{
	struct watch *w = arg;
	struct timespec nap = {.tv_nsec = SAMPLE_NS};

	while (!atomic_load(&w->ending) && w->n < SAMPLES_MAX) {
		w->samples[w->n].at = ticks();
		w->samples[w->n].work = guest_work(w->g);
		w->n++;
		nanosleep(&nap, NULL);
	}
	return NULL;
}

struct watch *trace_start(struct guest *g)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w)
		die("out of memory");
	w->g = g;
	poke(&g->station->marking, 1);
	if (pthread_create(&w->thread, NULL, watch_main, w))
		die("cannot start a thread");
	return w;
}

static void *copy_of(const void *p, size_t len)
{
	void *copy = malloc(len ? len : 1);

	if (!copy)
		die("out of memory");
	return memcpy(copy, p, len);
}

void trace_end(struct watch *w, const struct shot *s, struct trace *out)
{
	struct station *st = w->g->station;

	poke(&st->marking, 0);
	atomic_store(&w->ending, true);
	pthread_join(w->thread, NULL);
	*out = (struct trace){.begin = s->begin,
			      .resumed = s->resumed,
			      .end = s->end,
			      .done = s->done,
			      .scale = st->scale,
			      .n = w->n,
			      .marks_n = peek(&st->marks_n)};
	out->samples = copy_of(w->samples, w->n * sizeof(w->samples[0]));
	out->marks = copy_of(st->marks, out->marks_n * sizeof(st->marks[0]));
	for (unsigned i = 0; i < out->marks_n; i++)
		out->marks[i].due += w->g->clock_ahead;
	free(w);
}

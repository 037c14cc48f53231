// SPDX-License-Identifier: MIT
/*
 * The guest's stand-in: a writer that never rests, and a paced probe.
 *
 * How it works.  The probe writes one word to a page of its own random order,
 * naps, and so on.  Only a write that faulted is counted.  The first write to an
 * open page of a memfd faults too, but is over in a microsecond, while no two
 * threads hand a fault over in three.
 */
#include "load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>

#define PROBE_NAP_US 50
#define HANDED_OVER_NS 3000

struct load {
	enum load_kind kind;
	const struct ram *ram;
	struct samples *probe;
	pthread_t writer_thread, probe_thread;
	bool has_writer;
	pthread_barrier_t gate;
	atomic_bool ending;
};

const char *load_name(enum load_kind kind)
{
	static const char *const names[LOAD_KINDS] = {"idle", "random",
						      "sequential"};

	return names[kind];
}

static inline uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static void write_word(struct load *l, uint64_t page, uint64_t value)
{
	volatile uint64_t *p =
		(volatile uint64_t *)(void *)(l->ram->addr + page * PAGE);

	p[8 + (value & 255)] = value;
}

/* About one page a microsecond, as a busy virtual CPU would touch them. */
static void *writer_main(void *arg)
{
	struct load *l = arg;
	uint64_t pages = l->ram->len / PAGE, state = 0x9e3779b97f4a7c15u;

	pthread_barrier_wait(&l->gate);
	for (uint64_t n = 0;
	     !atomic_load_explicit(&l->ending, memory_order_relaxed); n++) {
		uint64_t page = l->kind == LOAD_RANDOM
					? next_random(&state) % pages
					: n / 8 % pages;

		write_word(l, page, n);
		for (volatile int spin = 0; spin < 300; spin++)
			;
	}
	return NULL;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static long minor_faults(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_minflt;
}

static void *probe_main(void *arg)
{
	struct load *l = arg;
	struct timespec nap = {.tv_nsec = PROBE_NAP_US * 1000};
	uint64_t pages = l->ram->len / PAGE, state = 0xdeadbeefcafef00du;

	pthread_barrier_wait(&l->gate);
	while (!atomic_load_explicit(&l->ending, memory_order_relaxed)) {
		uint64_t page = next_random(&state) % pages;
		long before = minor_faults();
		uint64_t start = now_ns(), ns;

		write_word(l, page, state);
		ns = now_ns() - start;
		if (ns > HANDED_OVER_NS && minor_faults() != before)
			samples_add(l->probe, ns);
		nanosleep(&nap, NULL);
	}
	return NULL;
}

struct load *load_start(enum load_kind kind, const struct ram *ram,
			struct samples *probe)
{
	struct load *l = calloc(1, sizeof(*l));

	if (!l)
		die("out of memory");
	l->kind = kind;
	l->ram = ram;
	l->probe = probe;
	l->has_writer = kind != LOAD_IDLE;
	pthread_barrier_init(&l->gate, NULL,
			     1u + l->has_writer + (probe != NULL));
	if ((l->has_writer &&
	     pthread_create(&l->writer_thread, NULL, writer_main, l)) ||
	    (probe && pthread_create(&l->probe_thread, NULL, probe_main, l)))
		die("cannot start a thread");
	return l;
}

void load_go(struct load *l)
{
	pthread_barrier_wait(&l->gate);
}

void load_stop(struct load *l)
{
	atomic_store(&l->ending, true);
	if (l->has_writer)
		pthread_join(l->writer_thread, NULL);
	if (l->probe)
		pthread_join(l->probe_thread, NULL);
	pthread_barrier_destroy(&l->gate);
	free(l);
}

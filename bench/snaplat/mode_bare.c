// SPDX-License-Identifier: MIT
/*
 * The bare round trip: the least that a copy before write costs here.
 *
 * One thread sleeps in poll() until a write waits, copies the page (the huge
 * page of THP), unprotects it, which wakes the writer, and does nothing else.
 * Nothing is saved in the background, so the window is as long as is asked.
 */
#include "mode.h"

#include "bench.h"
#include "wp.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FAULTS 16

struct bare {
	struct shot *s;
	int fd;
	size_t step; /* bytes copied and unprotected at once */
	uint8_t *copy;
	pthread_t thread;
	atomic_bool ending;
};

__attribute__((no_sanitize("thread"))) static void serve(struct bare *b,
							 uint64_t address)
{
	uintptr_t at = (uintptr_t)address & ~(b->step - 1);

	memcpy(b->copy, (void *)at, b->step);
	wp_set(b->fd, at, b->step, false);
	b->s->faults++;
}

static void *bare_main(void *arg)
{
	struct bare *b = arg;
	struct pollfd p = {.fd = b->fd, .events = POLLIN};
	uint64_t address[FAULTS];
	unsigned n;

	while (!atomic_load(&b->ending)) {
		if (poll(&p, 1, 20) < 1)
			continue;
		n = wp_faults(b->fd, address, FAULTS);
		for (unsigned i = 0; i < n; i++)
			serve(b, address[i]);
	}
	return NULL;
}

static void bare_take(struct shot *s)
{
	const struct ram *ram = &s->g->ram;
	struct bare b = {.s = s};
	struct timespec nap = {.tv_nsec = (long)(s->seconds * 1e9)};

	b.step = ram->kind == RAM_THP ? BLOCK : PAGE;
	b.copy = malloc(b.step);
	b.fd = wp_open(ram->addr, ram->len);
	if (!b.copy || pthread_create(&b.thread, NULL, bare_main, &b))
		die("cannot start a thread");
	memset(b.copy, 1, b.step);
	s->has_faults = true;
	shot_pause(s);
	wp_set(b.fd, (uintptr_t)ram->addr, ram->len, true);
	shot_resume(s);
	nanosleep(&nap, NULL);
	/* Everything is opened before the handler goes. */
	wp_set(b.fd, (uintptr_t)ram->addr, ram->len, false);
	shot_end(s);
	s->done = s->end;
	atomic_store(&b.ending, true);
	pthread_join(b.thread, NULL);
	wp_close(b.fd, ram->addr, ram->len);
	free(b.copy);
}

const struct mode mode_bare = {.name = "bare", .take = bare_take};

// SPDX-License-Identifier: GPL-2.0-only
/*
 * workload: the first and only process of the experiment's Linux guest. It loads
 * the memory by a pattern and measures what a paced probe pays for one access to
 * a page; both by commands from the serial line.
 *
 * Commands, a line each: "run PATTERN" (read64, rand-set, write64 or idle), and
 * "take", which prints what the probe saw since the last one and begins anew:
 *   TAKE <accesses> <p50> <p99> <p99.9> <max>     (nanoseconds)
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAGE ((size_t)4096)
#define ARENA ((size_t)128 << 20)
#define GAP_NS 200000
#define MAX_SAMPLES (1 << 20)

enum pattern { IDLE, READ64, RAND_SET, WRITE64 };

static const char *const names[] = {"idle", "read64", "rand-set", "write64"};

static volatile uint64_t *arena;
static _Atomic enum pattern pattern;
static uint64_t samples[MAX_SAMPLES];
static size_t taken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* samples, taken */
static double ns_per_tick;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void calibrate(void)
{
	uint64_t from = now_ns(), ticks = __rdtsc();

	usleep(300000);
	ns_per_tick = (double)(now_ns() - from) / (double)(__rdtsc() - ticks);
}

/* One stretch of the load: short, so that a new command is soon heard. */
static void load(enum pattern what, size_t *at)
{
	static uint64_t seed = 88172645463325252u;
	size_t words = ARENA / 8;

	for (size_t i = 0; i < 4096; i++) {
		*at = (*at + 8) % words; /* a cache line on */
		switch (what) {
		case READ64:
			(void)arena[*at];
			break;
		case WRITE64:
			arena[*at] = i;
			break;
		case RAND_SET:
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			arena[seed % words] = seed;
			break;
		case IDLE:
			usleep(1000);
			return;
		}
	}
}

static void *load_thread(void *arg)
{
	size_t at = 0;

	(void)arg;
	for (;;)
		load(atomic_load(&pattern), &at);
	return NULL;
}

static void *probe_thread(void *arg)
{
	struct timespec gap = {.tv_nsec = GAP_NS};
	const volatile char *byte = (const volatile char *)arena;

	(void)arg;
	for (size_t page = 0;; page = (page + 1) % (ARENA / PAGE)) {
		uint64_t from, ticks;

		nanosleep(&gap, NULL);
		from = __rdtsc();
		(void)byte[page * PAGE + 8];
		_mm_lfence();
		ticks = __rdtsc() - from;
		pthread_mutex_lock(&lock);
		if (taken < MAX_SAMPLES)
			samples[taken++] = ticks;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static unsigned long at_share(double share)
{
	size_t i = (size_t)((double)taken * share);

	return taken ? (unsigned long)((double)samples[i < taken ? i
								 : taken - 1] *
				       ns_per_tick)
		     : 0;
}

static void take(void)
{
	pthread_mutex_lock(&lock);
	qsort(samples, taken, sizeof(*samples), by_size);
	printf("TAKE %zu %lu %lu %lu %lu\n", taken, at_share(0.5),
	       at_share(0.99), at_share(0.999), at_share(1));
	taken = 0;
	pthread_mutex_unlock(&lock);
}

static void obey(const char *line)
{
	if (!strcmp(line, "take\n")) {
		take();
		return;
	}
	for (int i = IDLE; i <= WRITE64; i++)
		if (!strncmp(line, "run ", 4) &&
		    !strncmp(line + 4, names[i], strlen(names[i])) &&
		    line[4 + strlen(names[i])] == '\n') {
			atomic_store(&pattern, (enum pattern)i);
			printf("RUN %s\n", names[i]);
		}
}

int main(void)
{
	struct termios t;
	pthread_t thread;
	char line[80];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!tcgetattr(0, &t)) {
		t.c_lflag &= ~(tcflag_t)ECHO;
		tcsetattr(0, TCSANOW, &t);
	}
	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (arena == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < ARENA / 8; i += 8)
		arena[i] = i;
	calibrate();
	if (pthread_create(&thread, NULL, load_thread, NULL) ||
	    pthread_create(&thread, NULL, probe_thread, NULL))
		return 1;
	puts("READY");
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	return 0;
}

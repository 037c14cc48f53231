// SPDX-License-Identifier: MIT
/*
 * attach - what it costs to save another process, beside saving oneself.
 *
 *	attach [--mem SIZE in MiB] [--rounds N]
 *
 * How it works.  A child is the guest's stand-in: it has the RAM, a writer and
 * a paced probe.  In one half of the runs it saves itself, in the other half we
 * save it by its PID; rate and write-fault latency, which the probe measures,
 * are compared in one run.  And how long threads stand while the userfaultfd is
 * made, for several numbers of threads.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libsnap.h"
#include "load.h"
#include "ram.h"

#define SAMPLES_MAX 65536u
#define ATTACHES ROUNDS_MAX

/* What the child tells us. */
struct shared {
	_Atomic uint32_t ready, stop, done;
	uint64_t addr;
	double seconds; /* of its own snapshot */
	size_t n;
	uint32_t ns[SAMPLES_MAX];
};

struct setting {
	size_t mem;
	unsigned rounds;
};

/* A backing under a load. */
struct line {
	struct series own_rate, pid_rate, own_p99, pid_p99, attach_us, pause_us;
};

static void fill(uint8_t *p, size_t len)
{
	uint64_t x = 0x9e3779b97f4a7c15u, *w = (uint64_t *)p;

	for (size_t i = 0; i < len / sizeof(*w); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		w[i] = x;
	}
}

static double save(const struct snap_options *o, uint8_t *addr, size_t len,
		   struct load *go, struct snap_stats *st)
{
	struct snap_region r = {.size = sizeof(r), .addr = addr, .length = len};
	struct snap *s;

	if (snap_create(&s, o) || snap_add_region(s, &r) || snap_prepare(s) ||
	    snap_begin(s))
		die("%s", snap_error_message());
	if (go)
		load_go(go);
	if (snap_wait(s, -1))
		die("%s", snap_error_message());
	st->size = sizeof(*st);
	snap_get_stats(s, st);
	snap_destroy(s);
	return (double)st->duration_ns * 1e-9;
}

static void child(struct shared *sh, enum ram_kind kind, enum load_kind load,
		  size_t mem, bool own)
{
	const struct snap_options o = {.size = sizeof(o)};
	struct samples probe = {0};
	struct snap_stats st;
	struct ram ram;
	struct load *l;

	if (ram_make(&ram, kind, mem))
		die("%s", ram_why());
	fill(ram.addr, mem);
	l = load_start(load, &ram, load == LOAD_IDLE ? NULL : &probe);
	sh->addr = (uint64_t)(uintptr_t)ram.addr;
	if (own) {
		sh->seconds = save(&o, ram.addr, mem, l, &st);
	} else {
		load_go(l);
		atomic_store(&sh->ready, 1);
		while (!atomic_load(&sh->stop))
			usleep(1000);
	}
	load_stop(l);
	sh->n = probe.n < SAMPLES_MAX ? probe.n : SAMPLES_MAX;
	memcpy(sh->ns, probe.ns, sh->n * sizeof(sh->ns[0]));
	_exit(0);
}

static struct shared *start_child(enum ram_kind kind, enum load_kind load,
				  size_t mem, bool own, pid_t *pid)
{
	struct shared *sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (sh == MAP_FAILED)
		die("out of memory");
	*pid = fork();
	if (*pid < 0)
		die("fork: %s", strerror(errno));
	if (!*pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child(sh, kind, load, mem, own);
	}
	return sh;
}

static double p99_us(const struct shared *sh)
{
	struct samples s = {0};
	double p99;

	for (size_t i = 0; i < sh->n; i++)
		samples_add(&s, sh->ns[i]);
	p99 = s.n ? samples_percentiles(&s).p99_us : 0;
	samples_free(&s);
	return p99;
}

static void measure(struct line *l, enum ram_kind kind, enum load_kind load,
		    size_t mem)
{
	double mib = (double)(mem / MIB), seconds;
	struct snap_options o = {.size = sizeof(o)};
	struct snap_stats st = {0};
	struct shared *sh;
	pid_t pid;
	int status;

	sh = start_child(kind, load, mem, true, &pid);
	waitpid(pid, &status, 0);
	if (status)
		die("the process that saves itself ended with %d", status);
	series_add(&l->own_rate, mib / sh->seconds);
	series_add(&l->own_p99, p99_us(sh));
	munmap(sh, sizeof(*sh));

	sh = start_child(kind, load, mem, false, &pid);
	while (!atomic_load(&sh->ready))
		usleep(1000);
	o.pid = pid;
	seconds = save(&o, (uint8_t *)(uintptr_t)sh->addr, mem, NULL, &st);
	atomic_store(&sh->stop, 1);
	waitpid(pid, &status, 0);
	series_add(&l->pid_rate, mib / seconds);
	series_add(&l->pid_p99, p99_us(sh));
	series_add(&l->attach_us, (double)st.attach_ns / 1e3);
	series_add(&l->pause_us, (double)st.pause_ns / 1e3);
	munmap(sh, sizeof(*sh));
}

static void print_line(enum ram_kind kind, enum load_kind load,
		       const struct line *l)
{
	printf("%-6s %-10s %8.0f %8.0f %6.2f %10.0f %10.0f",
	       ram_kind_name(kind), load_name(load),
	       series_median(&l->own_rate), series_median(&l->pid_rate),
	       series_median(&l->pid_rate) / series_median(&l->own_rate),
	       series_median(&l->attach_us), series_median(&l->pause_us));
	if (load != LOAD_IDLE)
		printf(" %9.0f %9.0f %6.2f", series_median(&l->own_p99),
		       series_median(&l->pid_p99),
		       series_median(&l->pid_p99) / series_median(&l->own_p99));
	puts("");
}

static void *sleeper(void *arg)
{
	(void)arg;
	pause();
	return NULL;
}

static void attach_to_threads(unsigned threads)
{
	struct series us = {0};
	struct shared *sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();

	if (!pid) {
		pthread_t t;
		void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned i = 1; i < threads; i++)
			if (pthread_create(&t, NULL, sleeper, NULL))
				_exit(1);
		sh->addr = (uint64_t)(uintptr_t)p;
		atomic_store(&sh->ready, 1);
		pause();
	}
	while (!atomic_load(&sh->ready))
		usleep(1000);
	for (unsigned i = 0; i < ATTACHES; i++) {
		struct snap_options o = {.size = sizeof(o), .pid = pid};
		struct snap_stats st;

		save(&o, (uint8_t *)(uintptr_t)sh->addr, MIB, NULL, &st);
		series_add(&us, (double)st.attach_ns / 1e3);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	munmap(sh, sizeof(*sh));
	printf("%3u threads: median %5.0f us, longest %5.0f us\n", threads,
	       series_median(&us), series_max(&us));
}

int main(int argc, char **argv)
{
	static const enum ram_kind kinds[] = {RAM_ANON, RAM_THP, RAM_MEMFD};
	static const unsigned threads[] = {2, 5, 17, 65};
	struct setting set = {512 * MIB, 3};

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--mem"))
			set.mem = (size_t)atoi(argv[i + 1]) * MIB;
		else if (!strcmp(argv[i], "--rounds"))
			set.rounds = (unsigned)atoi(argv[i + 1]);
	}
	if (argc % 2 == 0 || !set.mem || !set.rounds)
		die("usage: attach [--mem MIB] [--rounds N]");
	printf("%zu MiB, %u rounds, medians; to nowhere, MiB/s and us\n\n"
	       "%-6s %-10s %8s %8s %6s %10s %10s %9s %9s %6s\n",
	       set.mem / MIB, set.rounds, "", "writer", "in-proc", "by PID",
	       "ratio", "attach", "pause", "own p99", "PID p99", "ratio");
	for (unsigned k = 0; k < 3; k++)
		for (int load = LOAD_IDLE; load <= LOAD_RANDOM; load++) {
			struct line l = {0};

			for (unsigned i = 0; i < set.rounds; i++)
				measure(&l, kinds[k], (enum load_kind)load,
					set.mem);
			print_line(kinds[k], (enum load_kind)load, &l);
		}
	puts("\nthreads stood for the attach:");
	for (unsigned i = 0; i < 4; i++)
		attach_to_threads(threads[i]);
	return 0;
}

// SPDX-License-Identifier: MIT
/*
 * `snaplat micro`: what changing one page costs, in cycles.
 *
 * As in the table of the series that spared TLB flushes on permission upgrades
 * (mm/mprotect, Nadav Amit): write-protecting one page and promoting it again,
 * by mprotect() and by userfaultfd, while one thread runs and while two do.
 * With two, a flush has to interrupt the other one.
 */
#include "options.h"

#include "verbs.h"
#include "wp.h"

#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGES 64

struct bench {
	unsigned calls;
	bool json;
	uint8_t *ram;
	int uffd;
	atomic_bool ending;
};

/* A way to change one page; @on protects. */
struct method {
	const char *name;
	void (*set)(struct bench *b, uint8_t *page, bool on);
};

static void by_mprotect(struct bench *b, uint8_t *page, bool on)
{
	if (mprotect(page, PAGE, PROT_READ | (on ? 0 : PROT_WRITE)))
		die("mprotect failed");
}

static void by_userfaultfd(struct bench *b, uint8_t *page, bool on)
{
	wp_set(b->uffd, (uintptr_t)page, PAGE, on);
}

static const struct method methods[] = {{"mprotect", by_mprotect},
					{"userfaultfd", by_userfaultfd}};
#define METHODS (sizeof(methods) / sizeof(methods[0]))

/* Runs, and so has translations that a flush must take from it. */
static void *other_main(void *arg)
{
	struct bench *b = arg;
	volatile uint8_t *ram = b->ram;
	unsigned sum = 0;

	while (!atomic_load_explicit(&b->ending, memory_order_relaxed))
		for (unsigned i = 0; i < PAGES; i++)
			sum += ram[i * PAGE];
	return sum ? b : NULL;
}

struct cost {
	uint64_t protect, promote; /* cycles, medians */
};

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t median(uint64_t *v, unsigned n)
{
	qsort(v, n, sizeof(v[0]), by_size);
	return v[n / 2];
}

static struct cost measure(struct bench *b, const struct method *m)
{
	uint64_t *on = malloc(b->calls * sizeof(*on));
	uint64_t *off = malloc(b->calls * sizeof(*off));
	struct cost c;

	if (!on || !off)
		die("out of memory");
	for (unsigned i = 0; i < b->calls; i++) {
		uint8_t *page = b->ram + i % PAGES * PAGE;
		uint64_t start, between;

		*(volatile uint8_t *)page = 1; /* in our own TLB, dirty */
		start = ticks();
		m->set(b, page, true);
		between = ticks();
		on[i] = between - start;
		(void)*(volatile uint8_t *)page;
		start = ticks();
		m->set(b, page, false);
		off[i] = ticks() - start;
	}
	c = (struct cost){median(on, b->calls), median(off, b->calls)};
	free(on);
	free(off);
	return c;
}

static struct cost measure_with(struct bench *b, const struct method *m,
				unsigned threads)
{
	pthread_t other;
	struct cost c;

	atomic_store(&b->ending, false);
	if (threads == 2 && pthread_create(&other, NULL, other_main, b))
		die("cannot start a thread");
	c = measure(b, m);
	atomic_store(&b->ending, true);
	if (threads == 2)
		pthread_join(other, NULL);
	return c;
}

static json_t *cost_json(const struct method *m, unsigned threads,
			 struct cost c)
{
	return json_pack("{s:s,s:i,s:I,s:I}", "method", m->name, "threads",
			 (int)threads, "protect_cycles", (json_int_t)c.protect,
			 "promote_cycles", (json_int_t)c.promote);
}

static void parse(struct bench *b, int argc, char **argv)
{
	static const struct option options[] = {
		{"calls", 1, NULL, 'n'}, {"json", 0, NULL, 'j'}, {0}};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (c == 'n')
			b->calls = (unsigned)parse_number("--calls", optarg, 1,
							  1e6);
		else if (c == 'j')
			b->json = true;
		else
			usage_die("%s", "unknown option");
	if (optind != argc)
		usage_die("%s: unexpected", argv[optind]);
}

int micro_main(int argc, char **argv)
{
	struct bench b = {.calls = 20000};
	struct ram ram;
	json_t *rows = json_array();

	parse(&b, argc, argv);
	if (ram_make(&ram, RAM_ANON, BLOCK))
		die("out of memory");
	b.ram = ram.addr;
	pattern_fill(ram.addr, BLOCK / PAGE, PATTERN_IDLE);
	if (!b.json)
		printf("one page, cycles, medians of %u calls\n%-12s %8s %10s "
		       "%10s\n",
		       b.calls, "", "threads", "protect", "promote");
	for (unsigned i = 0; i < METHODS; i++)
		for (unsigned threads = 1; threads <= 2; threads++) {
			struct cost c;

			b.uffd = wp_open(ram.addr, ram.len);
			c = measure_with(&b, &methods[i], threads);
			wp_close(b.uffd, ram.addr, ram.len);
			json_array_append_new(
				rows, cost_json(&methods[i], threads, c));
			if (!b.json)
				printf("%-12s %8u %10" PRIu64 " %10" PRIu64
				       "\n",
				       methods[i].name, threads, c.protect,
				       c.promote);
		}
	if (b.json) {
		json_dumpf(rows, stdout, JSON_COMPACT);
		putchar('\n');
	}
	json_decref(rows);
	ram_free(&ram);
	return 0;
}

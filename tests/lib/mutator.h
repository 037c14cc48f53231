/* SPDX-License-Identifier: MIT */
/*
 * A guest's stand-in: threads that write a sequence which can be replayed.
 *
 * How it works.  The words of the memory are dealt out to the threads like
 * cards, so that every page has all of them as writers and no word has two.
 * Thread t at its step n writes value(t, n) to place(t, n); both are pure
 * functions.  At the gate every thread stands between two steps and its count
 * is known, so the whole memory at that instant follows from the counts: that
 * is what an image is compared with, and the live memory at the end.
 */
#ifndef TEST_MUTATOR_H
#define TEST_MUTATOR_H

#include <stddef.h>
#include <stdint.h>

#define MUTATOR_THREADS_MAX 8

enum mutator_pattern {
	MUTATE_RANDOM,	   /* anywhere */
	MUTATE_SEQUENTIAL, /* page after page */
	MUTATE_HOT,	   /* nine of ten steps in a tenth of the memory */
};

struct mutator_config {
	uint8_t *addr;
	size_t len;	  /* a multiple of the page */
	unsigned threads; /* 0: nobody writes */
	enum mutator_pattern pattern;
	uint64_t seed;
	int closed;	 /* the gate is closed at the start */
	unsigned nap_us; /* after every MUTATOR_BATCH steps; 0: none */
};

#define MUTATOR_BATCH 32

/** How far each thread was at an instant. */
struct mutator_counts {
	uint64_t n[MUTATOR_THREADS_MAX];
};

struct mutator;

int mutator_start(struct mutator **out, const struct mutator_config *cfg);

/**
 * Stop all threads between two steps and say how far they are.  Returns
 * -ETIMEDOUT when a thread does not come: it hangs in a fault.
 */
int mutator_pause(struct mutator *m, struct mutator_counts *at);
void mutator_resume(struct mutator *m);

/** Pause, end the threads and free.  Same return. */
int mutator_stop(struct mutator *m, struct mutator_counts *at);

/**
 * Bring @model, a copy of the memory as it was at @from, to what it was at
 * @to.  @cfg->addr is not used.
 */
void mutator_replay(const struct mutator_config *cfg, uint8_t *model,
		    const struct mutator_counts *from,
		    const struct mutator_counts *to);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the guest does with its RAM, one step at a time.
 *
 * In a header, as a guest without a C library makes the same steps.  The RAM
 * is written to while others copy it, which is what userfaultfd is for and
 * what the thread sanitizer cannot know.
 */
#ifndef SNAPLAT_PATTERN_H
#define SNAPLAT_PATTERN_H

#include "ticks.h"

#include <stdint.h>

#define PATTERN_PAGE 4096u
#define PATTERN_HUGE (2u << 20)
#define PATTERN_RUN (PATTERN_HUGE / PATTERN_PAGE)

enum pattern {
	PATTERN_READ64,	  /* reads a word of one page after another */
	PATTERN_RAND_SET, /* reads and writes a word of a random page */
	PATTERN_WRITE64,  /* writes a word of one page after another */
	PATTERN_HOT,  /* 90 % of the writes go to every tenth 2 MiB of RAM */
	PATTERN_EXEC, /* calls pages of return instructions; every other
			 stretch is written to instead, and timed */
	PATTERN_IDLE, /* nothing but the probe */
	PATTERNS,
};

struct pattern_state {
	uint64_t ram, pages;
	uint64_t n;	   /* steps */
	uint64_t random;   /* never 0 */
	uint64_t exec_max; /* ticks */
};

static inline uint64_t pattern_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

/** Pages of a stretch of pattern exec: 1 GiB, less in a small guest. */
static inline uint64_t pattern_stretch(uint64_t pages)
{
	uint64_t gib = (1u << 30) / PATTERN_PAGE;
	uint64_t quarter = pages / 4 / PATTERN_RUN * PATTERN_RUN;

	return quarter < gib ? (quarter ? quarter : PATTERN_RUN) : gib;
}

/** Whether pattern exec calls @page. */
static inline int pattern_is_code(uint64_t page, uint64_t pages)
{
	return page / pattern_stretch(pages) % 2 == 0;
}

static inline volatile uint64_t *pattern_word(const struct pattern_state *p,
					      uint64_t page)
{
	/* Not always the same cache set. */
	return (volatile uint64_t *)(uintptr_t)(p->ram + page * PATTERN_PAGE +
						page % 61 * 64);
}

static inline uint64_t pattern_hot_page(struct pattern_state *p)
{
	uint64_t r = pattern_random(&p->random);
	uint64_t tens = p->pages / (10 * PATTERN_RUN);

	if (r % 10 == 0 || !tens)
		return (r >> 8) % p->pages;
	return (r >> 8) % tens * (10 * PATTERN_RUN) + (r >> 40) % PATTERN_RUN;
}

__attribute__((no_sanitize("thread"))) static inline void
pattern_exec(struct pattern_state *p)
{
	uint64_t page = pattern_random(&p->random) % p->pages;
	uint64_t start, spent;

	if (pattern_is_code(page, p->pages)) {
		((void (*)(void))(uintptr_t)(p->ram + page * PATTERN_PAGE))();
		return;
	}
	start = ticks();
	*pattern_word(p, page) = p->n;
	spent = ticks() - start;
	if (spent > p->exec_max)
		p->exec_max = spent;
}

__attribute__((no_sanitize("thread"))) static inline void
pattern_step(struct pattern_state *p, enum pattern kind)
{
	volatile uint64_t *word;

	p->n++;
	switch (kind) {
	case PATTERN_READ64:
		(void)*pattern_word(p, p->n % p->pages);
		break;
	case PATTERN_RAND_SET:
		word = pattern_word(p, pattern_random(&p->random) % p->pages);
		*word = *word + 1;
		break;
	case PATTERN_WRITE64:
		*pattern_word(p, p->n % p->pages) = p->n;
		break;
	case PATTERN_HOT:
		*pattern_word(p, pattern_hot_page(p)) = p->n;
		break;
	case PATTERN_EXEC:
		pattern_exec(p);
		break;
	default:
		break;
	}
}

const char *pattern_name(enum pattern kind);

/** Fill the guest's RAM: nothing zero, and return instructions where pattern
 * exec calls. */
void pattern_fill(uint8_t *ram, uint64_t pages, enum pattern kind);

#endif

// SPDX-License-Identifier: MIT
/* The state of every page of a region, 4 bits each, and the atomic claim. */
#include "pagestate.h"

#include <assert.h>
#include <stdlib.h>

#include "error.h"
#include "util/util.h"

#define PER_WORD 16u
#define STATE_BITS 4u
#define STATE_MASK 3u
#define NIBBLE_MASK 15u

static unsigned shift_of(uint64_t page)
{
	return (unsigned)(page % PER_WORD) * STATE_BITS;
}

static unsigned nibble(uint64_t word, uint64_t page)
{
	return (unsigned)(word >> shift_of(page)) & NIBBLE_MASK;
}

static uint64_t with_nibble(uint64_t word, uint64_t page, unsigned value)
{
	word &= ~((uint64_t)NIBBLE_MASK << shift_of(page));
	return word | (uint64_t)value << shift_of(page);
}

int pagestate_init(struct pagestate *ps, uint64_t pages)
{
	uint64_t words = (pages + PER_WORD - 1) / PER_WORD;

	ps->words = calloc(words, sizeof(*ps->words));
	if (!ps->words)
		return error_nomem("page states");
	ps->pages = pages;
	return 0;
}

void pagestate_free(struct pagestate *ps)
{
	free((void *)ps->words);
	ps->words = NULL;
	ps->pages = 0;
}

enum page_state pagestate_get(const struct pagestate *ps, uint64_t page)
{
	uint64_t w = atomic_load_explicit(&ps->words[page / PER_WORD],
					  memory_order_acquire);

	return (enum page_state)(nibble(w, page) & STATE_MASK);
}

/* Claim within one word: the leading ARMED pages of [@first, @end). */
static uint64_t claim_in_word(_Atomic uint64_t *word, uint64_t first,
			      uint64_t end)
{
	uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
	uint64_t new, p;

	do {
		new = old;
		for (p = first; p < end && nibble(old, p) == PAGE_ARMED; p++)
			new = with_nibble(new, p, PAGE_COPYING);
		if (p == first)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(
		word, &old, new, memory_order_acq_rel, memory_order_relaxed));
	return p - first;
}

/* The end of the part of [@page, @end) that lies in @page's word. */
static uint64_t word_end(uint64_t page, uint64_t end)
{
	return min_u64((page / PER_WORD + 1) * PER_WORD, end);
}

uint64_t pagestate_claim(struct pagestate *ps, uint64_t first, uint64_t max)
{
	uint64_t end = min_u64(first + max, ps->pages), p = first, part, n;

	while (p < end) {
		part = word_end(p, end);
		n = claim_in_word(&ps->words[p / PER_WORD], p, part);
		p += n;
		if (p < part)
			break;
	}
	return p - first;
}

bool pagestate_saved(struct pagestate *ps, uint64_t first, uint64_t count)
{
	uint64_t end = first + count, p = first, part, q, old, new;
	bool waited = false;

	for (; p < end; p = part) {
		_Atomic uint64_t *word = &ps->words[p / PER_WORD];
		unsigned flags;

		part = word_end(p, end);
		old = atomic_load_explicit(word, memory_order_relaxed);
		do {
			new = old;
			flags = 0;
			for (q = p; q < part; q++) {
				assert((nibble(old, q) & STATE_MASK) ==
				       PAGE_COPYING);
				flags |= nibble(old, q) & PAGE_WAITED;
				new = with_nibble(new, q, PAGE_SAVED);
			}
		} while (!atomic_compare_exchange_weak_explicit(
			word, &old, new, memory_order_acq_rel,
			memory_order_relaxed));
		waited |= flags != 0;
	}
	return waited;
}

enum page_state pagestate_wait(struct pagestate *ps, uint64_t page)
{
	_Atomic uint64_t *word = &ps->words[page / PER_WORD];
	uint64_t old = atomic_load_explicit(word, memory_order_acquire);
	unsigned state;

	do {
		state = nibble(old, page) & STATE_MASK;
		if (state != PAGE_COPYING)
			return (enum page_state)state;
	} while (!atomic_compare_exchange_weak_explicit(
		word, &old, with_nibble(old, page, PAGE_COPYING | PAGE_WAITED),
		memory_order_acq_rel, memory_order_acquire));
	return PAGE_COPYING;
}

void pagestate_open(struct pagestate *ps, uint64_t first, uint64_t count)
{
	uint64_t end = first + count, p = first, part, q, old, new;

	for (; p < end; p = part) {
		_Atomic uint64_t *word = &ps->words[p / PER_WORD];

		part = word_end(p, end);
		old = atomic_load_explicit(word, memory_order_relaxed);
		do {
			new = old;
			for (q = p; q < part; q++)
				if (nibble(old, q) == PAGE_SAVED)
					new = with_nibble(new, q, PAGE_OPEN);
		} while (!atomic_compare_exchange_weak_explicit(
			word, &old, new, memory_order_acq_rel,
			memory_order_relaxed));
	}
}

uint64_t pagestate_find(const struct pagestate *ps, uint64_t first,
			uint64_t end, enum page_state state)
{
	/* A word whose sixteen pages are all in the state looked past. */
	static const uint64_t all_open = 0x3333333333333333u;
	uint64_t p = first, w;

	while (p < end) {
		w = atomic_load_explicit(&ps->words[p / PER_WORD],
					 memory_order_acquire);
		if (w == all_open && state != PAGE_OPEN) {
			p = word_end(p, end);
			continue;
		}
		if ((nibble(w, p) & STATE_MASK) == state)
			return p;
		p++;
	}
	return end;
}

uint64_t pagestate_run(const struct pagestate *ps, uint64_t first, uint64_t end,
		       enum page_state state)
{
	uint64_t p = first;

	while (p < end && pagestate_get(ps, p) == state)
		p++;
	return p - first;
}

bool pagestate_all_saved(const struct pagestate *ps, uint64_t first,
			 uint64_t count)
{
	uint64_t p;

	for (p = first; p < first + count; p++)
		if (pagestate_get(ps, p) < PAGE_SAVED)
			return false;
	return true;
}

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

/* Steal within one word, like claim_in_word(). */
static uint64_t steal_in_word(_Atomic uint64_t *word, uint64_t first,
			      uint64_t end)
{
	uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
	uint64_t new, p;

	do {
		new = old;
		for (p = first; p < end && nibble(old, p) == PAGE_COPYING; p++)
			new = with_nibble(new, p, PAGE_COPYING | PAGE_STOLEN);
		if (p == first)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(
		word, &old, new, memory_order_acq_rel, memory_order_relaxed));
	return p - first;
}

uint64_t pagestate_steal(struct pagestate *ps, uint64_t first, uint64_t max)
{
	uint64_t end = min_u64(first + max, ps->pages), p = first, part, n;

	while (p < end) {
		part = word_end(p, end);
		n = steal_in_word(&ps->words[p / PER_WORD], p, part);
		p += n;
		if (p < part)
			break;
	}
	return p - first;
}

/* What becomes of a nibble when its owner is done; *lost: it was not his. */
static unsigned after_copy(unsigned old, bool may_lose, bool *lost)
{
	*lost = may_lose && (old & PAGE_STOLEN);
	if (*lost)
		return old & STATE_MASK; /* the thief's business from now on */
	assert((old & STATE_MASK) == PAGE_COPYING);
	return (old & PAGE_STOLEN) | PAGE_SAVED;
}

/* One word; returns a bit for each page of [@first, @end) that was lost. */
static uint64_t saved_in_word(_Atomic uint64_t *word, uint64_t first,
			      uint64_t end, bool may_lose)
{
	uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
	uint64_t new, p, bits;
	bool lost;

	do {
		new = old;
		bits = 0;
		for (p = first; p < end; p++) {
			new = with_nibble(
				new, p,
				after_copy(nibble(old, p), may_lose, &lost));
			bits |= (uint64_t)lost << (p - first);
		}
	} while (!atomic_compare_exchange_weak_explicit(
		word, &old, new, memory_order_acq_rel, memory_order_relaxed));
	return bits;
}

void pagestate_saved(struct pagestate *ps, uint64_t first, uint64_t count)
{
	uint64_t end = first + count, p = first, part;

	for (; p < end; p = part) {
		part = word_end(p, end);
		saved_in_word(&ps->words[p / PER_WORD], p, part, false);
	}
}

uint64_t pagestate_saved_or_lost(struct pagestate *ps, uint64_t first,
				 uint64_t count, uint64_t *lost)
{
	uint64_t end = first + count, p = first, part, bits, at, sum = 0;

	for (; p < end; p = part) {
		part = word_end(p, end);
		bits = saved_in_word(&ps->words[p / PER_WORD], p, part, true);
		at = p - first;
		sum += (uint64_t)__builtin_popcountll(bits);
		lost[at / 64] |= bits << at % 64;
		if (at % 64 > 64 - PER_WORD && bits >> (64 - at % 64))
			lost[at / 64 + 1] |= bits >> (64 - at % 64);
	}
	return sum;
}

/* Pages of the range that are in state @from go to state @to. */
static void move_all(struct pagestate *ps, uint64_t first, uint64_t count,
		     unsigned from, unsigned to)
{
	uint64_t end = first + count, p = first, part, q, old, new;

	for (; p < end; p = part) {
		_Atomic uint64_t *word = &ps->words[p / PER_WORD];

		part = word_end(p, end);
		old = atomic_load_explicit(word, memory_order_relaxed);
		do {
			new = old;
			for (q = p; q < part; q++)
				if ((nibble(old, q) & STATE_MASK) == from)
					new ^= with_nibble(0, q, from ^ to);
		} while (!atomic_compare_exchange_weak_explicit(
			word, &old, new, memory_order_acq_rel,
			memory_order_relaxed));
	}
}

void pagestate_arm(struct pagestate *ps, uint64_t first, uint64_t count)
{
	move_all(ps, first, count, PAGE_OPEN, PAGE_ARMED);
}

void pagestate_unarm(struct pagestate *ps, uint64_t first, uint64_t count)
{
	move_all(ps, first, count, PAGE_ARMED, PAGE_OPEN);
}

void pagestate_open(struct pagestate *ps, uint64_t first, uint64_t count)
{
	move_all(ps, first, count, PAGE_SAVED, PAGE_OPEN);
}

/* A word whose sixteen pages are all in @state, and none was stolen. */
static uint64_t all_in(unsigned state)
{
	return state * UINT64_C(0x1111111111111111);
}

uint64_t pagestate_find(const struct pagestate *ps, uint64_t first,
			uint64_t end, enum page_state state)
{
	uint64_t p = first, w;

	while (p < end) {
		w = atomic_load_explicit(&ps->words[p / PER_WORD],
					 memory_order_acquire);
		if ((w == all_in(PAGE_OPEN) && state != PAGE_OPEN) ||
		    (w == all_in(PAGE_ARMED) && state != PAGE_ARMED)) {
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
	uint64_t p = first, w;

	while (p < end) {
		w = atomic_load_explicit(&ps->words[p / PER_WORD],
					 memory_order_acquire);
		if (w == all_in(state))
			p = word_end(p, end);
		else if ((nibble(w, p) & STATE_MASK) == state)
			p++;
		else
			break;
	}
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

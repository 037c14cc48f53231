// SPDX-License-Identifier: MIT
/* Guest RAM whose contents at any instant tell which instant it was. */
#include "tickets.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define HEAD 4096u
/* Wrong words that are told of one by one. */
#define TOLD_MAX 8u
/* Odd, so that it goes through all words of a power of two; far apart. */
#define STRIDE UINT64_C(0x9e3779b1)

/* The largest power of two of words behind the first page. */
static uint64_t word_count(size_t len)
{
	uint64_t n = 1;

	while (n * 2 * sizeof(uint64_t) + HEAD <= len)
		n *= 2;
	return n;
}

static uint64_t word_of(uint64_t ticket, uint64_t words)
{
	return ticket * STRIDE & (words - 1);
}

/* Unless a newer one is there: a writer may have been off its CPU since it took
 * @ticket, while others went round. */
static void write_word(_Atomic uint64_t *word, uint64_t ticket)
{
	uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);

	while (seen < ticket &&
	       !atomic_compare_exchange_weak(word, &seen, ticket))
		;
}

void tickets_write(uint8_t *ram, size_t len, const _Atomic uint32_t *stop,
		   unsigned nap_us)
{
	_Atomic uint64_t *counter = (_Atomic uint64_t *)ram;
	_Atomic uint64_t *words = (_Atomic uint64_t *)(ram + HEAD);
	uint64_t n = word_count(len), ticket;

	while (!atomic_load_explicit(stop, memory_order_relaxed)) {
		ticket = atomic_fetch_add(counter, 1);
		write_word(&words[word_of(ticket, n)], ticket + 1);
		if (nap_us)
			usleep(nap_us);
	}
}

uint64_t tickets_taken(const uint8_t *ram)
{
	return *(const uint64_t *)ram;
}

/* A writer may have been off its CPU since it took @seen, for any number of
 * rounds through the words. */
static bool is_late(uint64_t seen, uint64_t expected, uint64_t words)
{
	return seen < expected && (!seen || (expected - seen) % words == 0);
}

uint64_t tickets_wrong(const uint8_t *ram, size_t len, unsigned writers)
{
	const uint64_t *words = (const uint64_t *)(ram + HEAD);
	uint64_t n = word_count(len), taken = tickets_taken(ram), i, t, seen;
	uint64_t wrong = 0, late = 0;

	for (i = 0; i < n; i++) {
		/* The last ticket below @taken of the word that is i-th. */
		t = i < taken ? i + (taken - 1 - i) / n * n + 1 : 0;
		seen = words[word_of(i, n)];
		if (seen == t)
			continue;
		if (is_late(seen, t, n))
			late++;
		else if (wrong++ < TOLD_MAX)
			fprintf(stderr,
				"word %" PRIu64 " holds ticket %" PRIu64
				" and not %" PRIu64 "; %" PRIu64 " were taken, "
				"for %" PRIu64 " words\n",
				word_of(i, n), seen, t, taken, n);
	}
	return wrong + (late > writers ? late - writers : 0);
}

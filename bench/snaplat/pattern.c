// SPDX-License-Identifier: MIT
/* Names of the patterns, and the RAM that they begin with. */
#include "pattern.h"

#include <string.h>

#define RETURN_INSTRUCTION 0xc3

const char *pattern_name(enum pattern kind)
{
	static const char *const names[PATTERNS] = {
		"read64", "rand-set", "write64", "hot", "exec", "idle"};

	return names[kind];
}

/* Bytes that no zero test or compressor can make light of. */
static void fill_page(uint8_t *page, uint64_t *random)
{
	uint64_t *words = (uint64_t *)(void *)page;

	for (unsigned i = 0; i < PATTERN_PAGE / 8; i++)
		words[i] = pattern_random(random);
}

void pattern_fill(uint8_t *ram, uint64_t pages, enum pattern kind)
{
	uint64_t random = 0x9e3779b97f4a7c15u;

	for (uint64_t i = 0; i < pages; i++)
		if (kind == PATTERN_EXEC && pattern_is_code(i, pages))
			memset(ram + i * PATTERN_PAGE, RETURN_INSTRUCTION,
			       PATTERN_PAGE);
		else
			fill_page(ram + i * PATTERN_PAGE, &random);
}

// SPDX-License-Identifier: MIT
/*
 * check_ram RAW CPUS - whether the RAM of the guest of boot.S is of one instant.
 * Prints the ticket it is at.  Exit code 1 when a word is wrong.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNTER 0x500
#define RAM 0x100000
#define WORDS UINT32_C(0x400000)
#define STRIDE UINT32_C(0x9e3779b1)

static uint32_t words[WORDS];

int main(int argc, char **argv)
{
	FILE *f = argc == 3 ? fopen(argv[1], "rb") : NULL;
	uint32_t taken, i, expected, wrong = 0, late = 0;

	if (!f || fseek(f, COUNTER, SEEK_SET) ||
	    fread(&taken, sizeof(taken), 1, f) != 1 ||
	    fseek(f, RAM, SEEK_SET) ||
	    fread(words, sizeof(words[0]), WORDS, f) != WORDS) {
		fputs("check_ram: cannot read the RAM\n", stderr);
		return 2;
	}
	fclose(f);
	for (i = 0; i < WORDS; i++) {
		uint32_t seen = words[(uint32_t)(i * STRIDE) & (WORDS - 1)];

		expected =
			i < taken ? i + (taken - 1 - i) / WORDS * WORDS + 1 : 0;
		if (seen == expected)
			continue;
		/* The counter comes first, and then the word: one a CPU. */
		if (seen == (expected > WORDS ? expected - WORDS : 0))
			late++;
		else
			wrong++;
	}
	if (late > (uint32_t)atoi(argv[2]))
		wrong += late;
	printf("%08" PRIx32 ", %" PRIu32 " words wrong, %" PRIu32
	       " about to be written\n",
	       taken, wrong, late);
	return wrong != 0;
}

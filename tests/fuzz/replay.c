// SPDX-License-Identifier: MIT
/*
 * Replays the corpus in the normal suite, each input also with changes.
 *
 *	fuzz_replay DIRECTORY
 *
 * Inputs named good-* must be images without damage, as the generator made
 * them; a change of the format that forgets the corpus fails here.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "libsnap.h"

#define CHANGES 50 /* of each input */

static uint64_t seed = 0x9e3779b97f4a7c15u;

static uint64_t random_next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* A few bytes of one field, where fields are: at the start of a chunk. */
static void change(uint8_t *data, size_t size)
{
	static const uint8_t odd[] = {0, 1, 2, 0x7f, 0x80, 0xff};
	size_t chunk = random_next() % ((size + FUZZ_CHUNK - 1) / FUZZ_CHUNK);
	size_t at = chunk * FUZZ_CHUNK + random_next() % 160;
	size_t n = 1 + random_next() % 8;
	uint8_t v = odd[random_next() % sizeof(odd)];

	for (; n && at < size; n--)
		data[at++] = random_next() % 2 ? v : (uint8_t)random_next();
}

static void replay_changed(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	int i;

	if (!copy)
		abort();
	for (i = 0; size && i < CHANGES; i++) {
		memcpy(copy, data, size);
		change(copy, size);
		if (i % 4 == 0)
			change(copy, size);
		LLVMFuzzerTestOneInput(copy, size);
	}
	free(copy);
}

static bool replay(const char *path, const char *name)
{
	static uint8_t data[FUZZ_INPUT_MAX];
	FILE *file = fopen(path, "rb");
	size_t size;
	int err;

	if (!file) {
		perror(path);
		return false;
	}
	size = fread(data, 1, sizeof(data), file);
	fclose(file);
	LLVMFuzzerTestOneInput(data, size);
	if (strncmp(name, "good-", 5) == 0) {
		err = fuzz_try(data, size);
		if (err) {
			fprintf(stderr, "%s is refused: %s\n", path,
				snap_error_message());
			return false;
		}
	}
	replay_changed(data, size);
	printf("%s: %zu bytes\n", name, size);
	return true;
}

int main(int argc, char **argv)
{
	struct dirent **list;
	char path[4096];
	bool ok = true;
	int n, i, inputs = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: fuzz_replay DIRECTORY\n");
		return 2;
	}
	n = scandir(argv[1], &list, NULL, alphasort);
	for (i = 0; i < n; i++) {
		if (list[i]->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", argv[1],
				 list[i]->d_name);
			ok = replay(path, list[i]->d_name) && ok;
			inputs++;
		}
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	if (!inputs)
		fprintf(stderr, "%s has no inputs\n", argv[1]);
	return ok && inputs ? 0 : 1;
}

// SPDX-License-Identifier: MIT
/*
 * Writes images for test_snapctl.sh, and the RAM that is in them.
 *
 *	make_image sample IMAGE RAW	the sample of image_maker, its region 0
 *	make_image big IMAGE		one region "ram" of 128 MiB
 *	make_image odd IMAGE		a region whose name is no text
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/image_maker.h"
#include "util/util.h"

static int store(struct image_maker *m, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0) {
		perror(path);
		return 1;
	}
	maker_store(m, fd, m->len);
	maker_free(m);
	return close(fd) ? 1 : 0;
}

static int make_sample(const char *image, const char *raw)
{
	static uint8_t ram[SAMPLE_PAGES * PAGE_BYTES];
	struct image_maker m;
	FILE *file = fopen(raw, "wb");
	bool written;
	uint64_t i;

	if (!file) {
		perror(raw);
		return 1;
	}
	for (i = 0; i < SAMPLE_PAGES; i++)
		if (maker_sample_kind(i) == FRAME_DATA)
			maker_page(ram + i * PAGE_BYTES, 0, i);
	written = fwrite(ram, 1, sizeof(ram), file) == sizeof(ram);
	if (fclose(file) || !written) {
		perror(raw);
		return 1;
	}
	maker_sample(&m);
	return store(&m, image);
}

static int make_big(const char *image)
{
	static const struct maker_frame how = {.codec = FRAME_CODEC_NONE};
	struct image_maker m = {0};
	uint64_t i;

	maker_region(&m, "ram", MAKER_FRAMES * BLOCK_PAGES);
	maker_begin(&m, 1);
	for (i = 0; i < MAKER_FRAMES; i++) {
		const struct frame_extent e = {i * BLOCK_PAGES, BLOCK_PAGES, 0,
					       FRAME_DATA};

		maker_frame(&m, &how, &e, 1);
	}
	maker_finish(&m);
	return store(&m, image);
}

static int make_odd(const char *image)
{
	static const struct maker_frame how = {.codec = FRAME_CODEC_NONE};
	static const struct frame_extent e = {0, 1, 0, FRAME_ABSENT};
	struct image_maker m = {0};

	maker_region(&m, "\033[31m\377", 1);
	maker_begin(&m, 1);
	maker_frame(&m, &how, &e, 1);
	maker_finish(&m);
	return store(&m, image);
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "sample") == 0)
		return make_sample(argv[2], argv[3]);
	if (argc == 3 && strcmp(argv[1], "big") == 0)
		return make_big(argv[2]);
	if (argc == 3 && strcmp(argv[1], "odd") == 0)
		return make_odd(argv[2]);
	fprintf(stderr, "usage: make_image sample|big|odd IMAGE [RAW]\n");
	return 2;
}

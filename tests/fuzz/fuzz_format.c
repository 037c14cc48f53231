// SPDX-License-Identifier: MIT
/* Fuzz target: any bytes are opened, verified and read as an image. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "libsnap.h"
#include "util/util.h"

#define READ_MAX ((uint64_t)MIB)

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s; last failure: %s\n", what, snap_error_message());
	abort();
}

static bool is_verdict(int err)
{
	return err == 0 || err == -EBADMSG || err == -ENOTSUP;
}

/* Runs of pages must lead to the region's end, neither short nor beyond. */
static void walk_pages(const struct snap_image *img, uint32_t index,
		       uint64_t pages)
{
	uint64_t page = 0, count, runs = 0;
	enum snap_page_kind kind;

	while (page < pages && runs++ < 100000) {
		must(!snap_image_page_kind(img, index, page, &kind, &count),
		     "a page of a region has no kind");
		must(count && count <= pages - page, "a run is too long");
		page += count;
	}
}

static bool read_region(struct snap_image *img, uint32_t index)
{
	struct snap_image_region r = {.size = sizeof(r)};
	uint64_t length;
	void *buf;
	int err;

	must(!snap_image_get_region(img, index, &r), "a region is missing");
	walk_pages(img, index, r.length / SNAP_PAGE_SIZE);
	length = min_u64(r.length, READ_MAX);
	buf = malloc(length);
	must(buf != NULL, "out of memory");
	err = snap_image_read(img, index, 0, buf, length);
	free(buf);
	must(is_verdict(err), "a read failed in an unexpected way");
	return err == 0;
}

static bool read_states(struct snap_image *img, uint32_t count)
{
	const uint8_t *data;
	const void *bytes;
	const char *name;
	unsigned sum = 0;
	size_t length;
	uint32_t i;

	for (i = 0; i < count; i++) {
		must(!snap_image_get_device_state(img, i, &name, &bytes,
						  &length),
		     "a device state is missing");
		must(name[0] != '\0', "a device state has no name");
		/* A sanitizer sees whether the bytes are there. */
		for (data = bytes; length; length--)
			sum += *data++;
	}
	return sum < UINT32_MAX;
}

/* All that an open image can be asked; false when a read found damage. */
static bool read_image(struct snap_image *img)
{
	struct snap_image_info info = {.size = sizeof(info)};
	bool whole;
	uint32_t i;

	must(!snap_image_get_info(img, &info), "an image has no info");
	must(info.pages_total ==
		     info.pages_data + info.pages_zero + info.pages_absent,
	     "the page counts do not add up");
	must(info.bytes_ram == info.pages_total * SNAP_PAGE_SIZE,
	     "the bytes are not the pages");
	whole = read_states(img, info.device_state_count);
	for (i = 0; i < info.region_count && i < 16; i++)
		whole = read_region(img, i) && whole;
	return whole;
}

static int try_image(const uint8_t *bytes, size_t len)
{
	struct snap_image *img = NULL;
	int fd, opened, verified;
	char path[32];

	fd = memfd_create("fuzz", MFD_CLOEXEC);
	must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len, "no memfd");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	opened = snap_image_open(&img, path);
	verified = snap_image_verify(path);
	close(fd);
	must(is_verdict(opened) && is_verdict(verified),
	     "an image failed in an unexpected way");
	must(opened == 0 || verified != 0,
	     "an image is called undamaged that cannot be opened");
	if (opened == 0 && !read_image(img))
		must(verified != 0, "damage was read that verify did not see");
	snap_image_close(img);
	return opened ? opened : verified;
}

/* The image of an input, to be freed. */
static uint8_t *expand(const uint8_t *data, size_t size, size_t *len)
{
	size_t blocks = (size + FUZZ_CHUNK - 1) / FUZZ_CHUNK, at;
	uint8_t *image = calloc(blocks + 1, FUZZ_BLOCK);

	must(image != NULL, "out of memory");
	for (at = 0; at < size; at += FUZZ_CHUNK)
		memcpy(image + at / FUZZ_CHUNK * FUZZ_BLOCK, data + at,
		       min_u64(size - at, FUZZ_CHUNK));
	*len = blocks * FUZZ_BLOCK;
	return image;
}

int fuzz_try(const uint8_t *data, size_t size)
{
	size_t len;
	uint8_t *image = expand(data, size, &len);
	int err = try_image(image, len);

	free(image);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *image;
	size_t len;

	if (size > FUZZ_INPUT_MAX)
		return 0;
	image = expand(data, size, &len);
	try_image(image, len);
	fuzz_reseal(image, len);
	try_image(image, len);
	free(image);
	return 0;
}

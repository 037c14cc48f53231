// SPDX-License-Identifier: MIT
/* Compares images, live memory and statistics with the model of a scene. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scene.h"

#include <inttypes.h>
#include <sys/mman.h>

#define PAGE 4096u

static uint8_t *map_bytes(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

/* Both are multiples of 8 at multiples of 8. */
SCENE_UNCHECKED static bool same_words(const uint8_t *a, const uint8_t *b,
				       size_t len)
{
	const uint64_t *x = (const void *)a, *y = (const void *)b;
	uint64_t differ = 0;

	for (size_t i = 0; i < len / 8 && !differ; i++)
		differ = x[i] ^ y[i];
	return !differ;
}

bool scene_same(struct scene *sc, const char *what, size_t offset,
		const uint8_t *got, size_t len)
{
	const uint8_t *want = sc->model + offset;
	unsigned bad = 0;

	if (same_words(got, want, len))
		return true;
	for (size_t at = 0; at < len; at += PAGE) {
		size_t i = 0;

		if (same_words(got + at, want + at, PAGE))
			continue;
		while (got[at + i] == want[at + i])
			i++;
		i &= ~(size_t)7;
		if (++bad > 4)
			continue;
		print_message("%s: page %zu word %zu is %016" PRIx64
			      ", not %016" PRIx64 "\n",
			      what, (offset + at) / PAGE, i / 8,
			      *(const uint64_t *)(const void *)(got + at + i),
			      *(const uint64_t *)(const void *)(want + at + i));
	}
	print_message("%s: %u of %zu pages differ\n", what, bad, len / PAGE);
	return false;
}

static void check_region(struct scene *sc, struct snap_image *img,
			 const struct scene_snap *ss, unsigned k)
{
	struct snap_image_region r = {.size = sizeof(r)};
	size_t offset, len;
	uint8_t *got;

	scene_region_bounds(sc, ss->first_region + k, &offset, &len);
	assert_int_equal(snap_image_get_region(img, k, &r), 0);
	assert_int_equal(r.start, (uintptr_t)sc->ram.addr + offset);
	assert_int_equal(r.length, len);
	assert_int_equal(r.guest_addr, offset);
	assert_int_equal(r.page_size, sc->ram.page_size);
	got = map_bytes(len);
	scene_must(snap_image_read(img, k, 0, got, len), "snap_image_read");
	assert_true(scene_same(sc, "image", offset, got, len));
	munmap(got, len);
}

static uint64_t count_zero(struct scene *sc, const struct scene_snap *ss)
{
	static const uint8_t zeros[PAGE] __attribute__((aligned(8)));
	uint64_t zero = 0;

	for (unsigned k = 0; k < ss->region_count; k++) {
		size_t offset, len;

		scene_region_bounds(sc, ss->first_region + k, &offset, &len);
		for (size_t at = 0; at < len; at += PAGE)
			zero += same_words(sc->model + offset + at, zeros,
					   PAGE);
	}
	return zero;
}

void scene_check_image(struct scene *sc, const struct scene_snap *ss)
{
	struct snap_image_info info = {.size = sizeof(info)};
	struct snap_image *img;

	scene_must(snap_image_verify(ss->path), "snap_image_verify");
	scene_must(snap_image_open(&img, ss->path), "snap_image_open");
	assert_int_equal(snap_image_get_info(img, &info), 0);
	assert_int_equal(info.region_count, ss->region_count);
	assert_int_equal(info.pages_total, ss->stats.pages_total);
	assert_int_equal(info.pages_total,
			 info.pages_data + info.pages_zero + info.pages_absent);
	assert_int_equal(info.pages_absent, ss->stats.pages_absent);
	assert_int_equal(info.pages_zero, ss->stats.pages_zero);
	for (unsigned k = 0; k < ss->region_count; k++)
		check_region(sc, img, ss, k);
	snap_image_close(img);
}

void scene_check_stats(struct scene *sc, const struct scene_snap *ss)
{
	const struct snap_stats *st = &ss->stats;
	uint64_t pages = 0;

	for (unsigned k = 0; k < ss->region_count; k++) {
		size_t offset, len;

		scene_region_bounds(sc, ss->first_region + k, &offset, &len);
		pages += len / PAGE;
	}
	assert_int_equal(st->pages_total, pages);
	assert_int_equal(st->bytes_ram, pages * PAGE);
	assert_int_equal(st->pages_total,
			 st->pages_by_fault + st->pages_by_sweep +
				 st->pages_in_pause + st->pages_absent);
	/* A hole that is written to meanwhile is copied, as zeros; what a
	 * hugetlb file lacks is not told by the kernel. */
	if (sc->cfg->threads || sc->cfg->kind == RAM_HUGETLB_MEMFD)
		assert_true(st->pages_absent <= ss->absent);
	else
		assert_int_equal(st->pages_absent, ss->absent);
	assert_int_equal(st->pages_zero, count_zero(sc, ss) - st->pages_absent);
	if (!sc->cfg->threads)
		assert_int_equal(st->pages_by_fault, 0);
	if (!sc->cfg->expect_pool_waits)
		return;
	assert_true(st->pool_wait_faults > 0);
	assert_true(st->pool_wait_fault_ns > 0);
	assert_true(st->pool_wait_sweep_ns > 0);
}

// SPDX-License-Identifier: MIT
/*
 * RAM protected before the pause: what is left to the pause, by counts, and
 * that no write after the snapshot point gets into the image.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/ram.h"
#include "lib/scene.h"

#define MB ((size_t)1 << 20)
#define RAM_BYTES (64 * MB)
#define BLOCK_PAGES 512u
#define PAGES (RAM_BYTES / 4096)

struct fixture {
	struct ram ram;
	struct snap *snap;
	struct snap_stats st;
	char path[64];
};

static struct fixture *prearmed(enum ram_kind kind)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct snap_options o = {.size = sizeof(o), .flags = SNAP_OVERWRITE};
	struct snap_region r = {.size = sizeof(r), .length = RAM_BYTES};

	assert_non_null(f);
	assert_int_equal(ram_make(&f->ram, kind, RAM_BYTES), 0);
	memset(f->ram.addr, 'a', RAM_BYTES);
	snprintf(f->path, sizeof(f->path), "prearm-%d.snap", (int)getpid());
	o.output = f->path;
	r.addr = f->ram.addr;
	assert_int_equal(snap_create(&f->snap, &o), 0);
	assert_int_equal(snap_add_region(f->snap, &r), 0);
	if (snap_prepare(f->snap) == -EPERM)
		scene_skip(snap_error_message());
	scene_must(snap_prearm(f->snap), "snap_prearm");
	return f;
}

static void begin(struct fixture *f)
{
	scene_must(snap_begin(f->snap), "snap_begin");
}

/* The end of a snapshot that succeeds; the handle is gone. */
static void finish(struct fixture *f)
{
	scene_must(snap_wait(f->snap, 60000), "snap_wait");
	f->st.size = sizeof(f->st);
	assert_int_equal(snap_get_stats(f->snap, &f->st), 0);
	snap_destroy(f->snap);
	f->snap = NULL;
}

static uint8_t saved_byte(struct fixture *f, size_t offset)
{
	struct snap_image *img;
	uint8_t byte;

	scene_must(snap_image_open(&img, f->path), "snap_image_open");
	scene_must(snap_image_read(img, 0, offset, &byte, 1),
		   "snap_image_read");
	snap_image_close(img);
	return byte;
}

static void done(struct fixture *f)
{
	snap_destroy(f->snap);
	unlink(f->path);
	ram_free(&f->ram);
	free(f);
}

static void write_page(struct fixture *f, size_t page, uint8_t value)
{
	((volatile uint8_t *)f->ram.addr)[page * 4096 + 7] = value;
}

/* Of each block one page: that page alone is to be protected in the pause. */
static void one_page_a_block(enum ram_kind kind)
{
	struct fixture *f = prearmed(kind);
	size_t i;

	for (i = 0; i < PAGES; i += BLOCK_PAGES)
		write_page(f, i + 5, 'b');
	begin(f);
	for (i = 0; i < PAGES; i += BLOCK_PAGES) {
		write_page(f, i + 5, 'c');
		write_page(f, i + 6, 'c');
	}
	finish(f);
	assert_int_equal(f->st.early_faults, PAGES / BLOCK_PAGES);
	assert_int_equal(f->st.pages_armed_in_pause, PAGES / BLOCK_PAGES);
	for (i = 0; i < PAGES; i += BLOCK_PAGES) {
		assert_int_equal(saved_byte(f, (i + 5) * 4096 + 7), 'b');
		assert_int_equal(saved_byte(f, (i + 6) * 4096 + 7), 'a');
	}
	done(f);
}

static void written_pages_alone_are_left_to_the_pause(void **state)
{
	(void)state;
	one_page_a_block(RAM_ANON);
	one_page_a_block(RAM_MEMFD);
}

static void nothing_is_left_to_it_when_nobody_writes(void **state)
{
	struct fixture *f = prearmed(RAM_ANON);

	(void)state;
	begin(f);
	finish(f);
	assert_int_equal(f->st.prearm_rounds, 1);
	assert_int_equal(f->st.early_faults, 0);
	assert_int_equal(f->st.pages_armed_in_pause, 0);
	done(f);
}

static void a_block_that_is_written_often_is_opened_whole(void **state)
{
	struct fixture *f = prearmed(RAM_ANON);
	size_t i;

	(void)state;
	for (i = 0; i < BLOCK_PAGES; i++)
		write_page(f, 2 * BLOCK_PAGES + i, 'b');
	begin(f);
	for (i = 0; i < BLOCK_PAGES; i++)
		write_page(f, 2 * BLOCK_PAGES + i, 'c');
	finish(f);
	assert_in_range(f->st.early_faults, 2, 20);
	assert_int_equal(f->st.pages_armed_in_pause, BLOCK_PAGES);
	for (i = 0; i < BLOCK_PAGES; i++)
		assert_int_equal(
			saved_byte(f, (2 * BLOCK_PAGES + i) * 4096 + 7), 'b');
	done(f);
}

static void huge_pages_are_left_to_the_pause(void **state)
{
	struct fixture *f = prearmed(RAM_THP);

	(void)state;
	write_page(f, 5, 'b');
	begin(f);
	write_page(f, 6, 'c');
	finish(f);
	assert_int_equal(f->st.early_faults, 0);
	assert_int_equal(f->st.pages_armed_in_pause, PAGES);
	assert_int_equal(saved_byte(f, 5 * 4096 + 7), 'b');
	assert_int_equal(saved_byte(f, 6 * 4096 + 7), 'a');
	done(f);
}

/* madvise() takes the marks away, after its event has been read. */
static void discarded_memory_is_protected_in_the_pause(void **state)
{
	struct fixture *f = prearmed(RAM_ANON);
	uint8_t *hole = f->ram.addr + 4 * MB + 8 * 4096;

	(void)state;
	assert_int_equal(madvise(hole, 16 * 4096, MADV_DONTNEED), 0);
	begin(f);
	hole[3 * 4096] = 'c';
	finish(f);
	assert_int_equal(f->st.pages_armed_in_pause, BLOCK_PAGES);
	assert_int_equal(saved_byte(f, 4 * MB + 11 * 4096), 0);
	assert_int_equal(saved_byte(f, 4 * MB), 'a');
	done(f);
}

static void memory_unmapped_before_the_point_is_told(void **state)
{
	struct fixture *f = prearmed(RAM_ANON);
	int err;

	(void)state;
	assert_int_equal(munmap(f->ram.addr + 8 * MB, 4096), 0);
	err = snap_begin(f->snap);
	expect_error(err, -EFAULT, SNAP_FAILURE_REFUSED, "unmapped|ram0");
	done(f);
}

static void a_handle_that_is_destroyed_leaves_nothing_protected(void **state)
{
	struct fixture *f = prearmed(RAM_ANON);
	size_t i;

	(void)state;
	snap_destroy(f->snap);
	f->snap = NULL;
	/* Were a mark left nobody would answer its fault. */
	for (i = 0; i < PAGES; i++)
		write_page(f, i, 'd');
	assert_int_not_equal(access(f->path, F_OK), 0);
	done(f);
}

static void a_cancelled_one_refuses(void **state)
{
	struct fixture *f = prearmed(RAM_ANON);
	int err;

	(void)state;
	snap_cancel(f->snap);
	err = snap_prearm(f->snap);
	expect_error(err, -ECANCELED, SNAP_FAILURE_CANCELLED, "cancelled");
	write_page(f, 9, 'd');
	done(f);
}

static void it_may_be_repeated_but_not_after_the_point(void **state)
{
	struct fixture *f = prearmed(RAM_ANON);
	int err;

	(void)state;
	write_page(f, 5, 'b');
	scene_must(snap_prearm(f->snap), "snap_prearm");
	begin(f);
	err = snap_prearm(f->snap);
	expect_error(err, -EBUSY, SNAP_FAILURE_USAGE, "begun");
	finish(f);
	/* The second call protected again what was written after the first. */
	assert_int_equal(f->st.early_faults, 1);
	assert_int_equal(f->st.pages_armed_in_pause, 0);
	assert_int_equal(saved_byte(f, 5 * 4096 + 7), 'b');
	done(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_pages_alone_are_left_to_the_pause),
		cmocka_unit_test(nothing_is_left_to_it_when_nobody_writes),
		cmocka_unit_test(a_block_that_is_written_often_is_opened_whole),
		cmocka_unit_test(huge_pages_are_left_to_the_pause),
		cmocka_unit_test(discarded_memory_is_protected_in_the_pause),
		cmocka_unit_test(memory_unmapped_before_the_point_is_told),
		cmocka_unit_test(
			a_handle_that_is_destroyed_leaves_nothing_protected),
		cmocka_unit_test(a_cancelled_one_refuses),
		cmocka_unit_test(it_may_be_repeated_but_not_after_the_point),
	};

	return scene_exit_code(
		cmocka_run_group_tests_name("prearm", tests, NULL, NULL));
}

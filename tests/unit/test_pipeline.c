// SPDX-License-Identifier: MIT
/* Encoder and writer together: the read side finds what was captured. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bufpool.h"
#include "encode.h"
#include "error.h"
#include "format.h"
#include "libsnap.h"
#include "writer.h"

/* After ours: it makes a macro of fail, the member of struct failure_sink. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RAM_PAGES 4096u
#define ABSENT_FROM 3000u /* the pages from here on were never touched */

static const uint8_t snapshot_id[16] = {4, 2};
static const char state_bytes[] = "registers";
static uint8_t *ram;
static char path[64];

static void on_failure(void *user_data, int err)
{
	(*(int *)user_data)++;
}

static void fill_ram(void)
{
	uint64_t v = 88172645463325252u;

	for (size_t page = 0; page < ABSENT_FROM; page++) {
		if (page % 3 == 1)
			continue; /* zero */
		for (size_t i = 0; i < PAGE_BYTES; i += 8) {
			v ^= v << 13;
			v ^= v >> 7;
			v ^= v << 17;
			if (page % 2 || i % 64 == 0)
				memcpy(ram + page * PAGE_BYTES + i, &v, 8);
		}
	}
}

static void send_head(struct writer *w)
{
	struct format_head h = {.region_count = 1, .state_count = 1};
	struct format_region region = {
		.name = "ram",
		.length = RAM_PAGES * PAGE_BYTES,
		.page_size = PAGE_BYTES,
	};
	struct format_state state = {
		.name = "cpu",
		.length = sizeof(state_bytes),
		.data = state_bytes,
	};
	void *head;
	size_t len;

	memcpy(h.snapshot_id, snapshot_id, sizeof(snapshot_id));
	state.checksum = format_checksum(state_bytes, sizeof(state_bytes));
	len = format_head_size(&h, &state);
	head = calloc(1, len);
	assert_non_null(head);
	format_put_head(head, &h, &region, &state);
	writer_head(w, head, len);
}

static void send_ram(struct bufpool *pool, struct encoder *e)
{
	struct buf *b;

	for (unsigned page = 0; page < RAM_PAGES; page += BLOCK_PAGES) {
		unsigned data = 0;

		b = bufpool_get_sweep(pool);
		assert_non_null(b);
		if (page < ABSENT_FROM)
			data = (unsigned)min_u64(BLOCK_PAGES,
						 ABSENT_FROM - page);
		if (data)
			b->extents[b->extent_count++] = (struct frame_extent){
				page, data, 0, FRAME_DATA};
		if (data < BLOCK_PAGES)
			b->extents[b->extent_count++] = (struct frame_extent){
				page + data, BLOCK_PAGES - data, 0,
				FRAME_ABSENT};
		b->payload_len = data * PAGE_BYTES;
		memcpy(b->payload, ram + page * PAGE_BYTES, b->payload_len);
		encode_submit(e, b);
	}
}

static void write_image(struct writer_options o, enum snap_compress compress)
{
	int failures = 0;
	struct encode_options eo = {.compress = compress, .workers = 2};
	struct writer_totals totals = {
		.pages_total = RAM_PAGES,
		.pages_absent = RAM_PAGES - ABSENT_FROM,
	};
	struct bufpool *pool;
	struct writer *w;
	struct encoder *e;

	assert_int_equal(
		bufpool_create(&pool, 16 * MIB, encode_outputs(compress, 2)),
		0);
	o.pool = eo.pool = pool;
	o.sink = eo.sink = (struct failure_sink){on_failure, &failures};
	assert_int_equal(writer_open(&w, &o), 0);
	eo.writer = w;
	memcpy(eo.snapshot_id, snapshot_id, sizeof(snapshot_id));
	memcpy(totals.snapshot_id, snapshot_id, sizeof(snapshot_id));
	assert_int_equal(encode_start(&e, &eo), 0);
	send_head(w);
	send_ram(pool, e);
	encode_drain(e);
	totals.pages_zero = encode_zero_pages(e);
	totals.pages_data = encode_data_pages(e);
	assert_int_equal(totals.pages_zero, ABSENT_FROM / 3);
	assert_int_equal(writer_finish(w, &totals), 0);
	encode_stop(e);
	writer_close(w);
	assert_int_equal(bufpool_lent(pool), 0);
	bufpool_destroy(pool);
	assert_int_equal(failures, 0);
}

static void assert_image_is_ram(void)
{
	struct snap_image_info info = {.size = sizeof(info)};
	uint8_t *got = malloc(RAM_PAGES * PAGE_BYTES);
	struct snap_image *img;
	const void *data;
	size_t len;
	int err;

	assert_non_null(got);
	err = snap_image_verify(path);
	if (err)
		fail_msg("verify: %s", error_text());
	err = snap_image_open(&img, path);
	if (err)
		fail_msg("open: %s", error_text());
	assert_int_equal(snap_image_get_info(img, &info), 0);
	assert_int_equal(info.pages_zero, ABSENT_FROM / 3);
	assert_int_equal(info.pages_absent, RAM_PAGES - ABSENT_FROM);
	assert_memory_equal(info.snapshot_id, snapshot_id, 16);
	assert_int_equal(snap_image_find_device_state(img, "cpu", &data, &len),
			 0);
	assert_int_equal(len, sizeof(state_bytes));
	assert_memory_equal(data, state_bytes, len);
	assert_int_equal(
		snap_image_read(img, 0, 0, got, RAM_PAGES * PAGE_BYTES), 0);
	assert_memory_equal(got, ram, RAM_PAGES * PAGE_BYTES);
	snap_image_close(img);
	free(got);
	assert_int_equal(unlink(path), 0);
}

static void a_written_file_reads_back(void **state)
{
	static const unsigned flags[] = {0, SNAP_NO_IO_URING, SNAP_NO_DIRECT};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(flags); i++) {
		write_image((struct writer_options){.path = path,
						    .flags = flags[i / 2],
						    .reserve = 32 * MIB},
			    i % 2 ? SNAP_COMPRESS_ZSTD : SNAP_COMPRESS_NONE);
		assert_image_is_ram();
	}
}

static void a_stream_reads_back(void **state)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	write_image((struct writer_options){.fd = fd}, SNAP_COMPRESS_ZSTD);
	close(fd);
	assert_image_is_ram();
}

static int setup(void **state)
{
	ram = calloc(RAM_PAGES, PAGE_BYTES);
	if (!ram)
		return -1;
	fill_ram();
	snprintf(path, sizeof(path), "snap-test-pipeline.%d", (int)getpid());
	return 0;
}

static int teardown(void **state)
{
	unlink(path);
	free(ram);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_written_file_reads_back),
		cmocka_unit_test(a_stream_reads_back),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

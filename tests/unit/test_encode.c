// SPDX-License-Identifier: MIT
/* The encoder: frames decode to what was captured; failures keep no buffer. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "bufpool.h"
#include "encode.h"
#include "error.h"
#include "format.h"
#include "thread.h"
#include "writer.h"

/* After ours: it makes a macro of fail, the member of struct failure_sink. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct {
	atomic_bool no_context;
	atomic_bool compress_fails;
	atomic_int thread_starts_until_failure; /* 1: the next one; 0: never */
} fake;

ZSTD_CCtx *__real_ZSTD_createCCtx(void);
ZSTD_CCtx *__wrap_ZSTD_createCCtx(void);
size_t __real_ZSTD_compress2(ZSTD_CCtx *c, void *dst, size_t room,
			     const void *src, size_t len);
size_t __wrap_ZSTD_compress2(ZSTD_CCtx *c, void *dst, size_t room,
			     const void *src, size_t len);
int __real_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
			void *arg);
int __wrap_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
			void *arg);
void __wrap_writer_submit(struct writer *w, struct buf *b);

ZSTD_CCtx *__wrap_ZSTD_createCCtx(void)
{
	return fake.no_context ? NULL : __real_ZSTD_createCCtx();
}

size_t __wrap_ZSTD_compress2(ZSTD_CCtx *c, void *dst, size_t room,
			     const void *src, size_t len)
{
	if (fake.compress_fails)
		return (size_t)-ZSTD_error_memory_allocation;
	return __real_ZSTD_compress2(c, dst, room, src, len);
}

int __wrap_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
			void *arg)
{
	if (fake.thread_starts_until_failure &&
	    --fake.thread_starts_until_failure == 0)
		return error_sys(-EAGAIN, SNAP_FAILURE_INTERNAL,
				 "cannot start thread %s", name);
	return __real_thread_start(out, name, fn, arg);
}

/* Outputs in the pool of the tests, so many compressed frames can be kept. */
#define KEPT 4u

/* ---- an encoder whose frames are kept instead of written ---- */

static struct fixture {
	struct bufpool *pool;
	struct encoder *encoder;
	pthread_mutex_t lock;
	struct buf *frames; /* last one first */
	atomic_int failures, failure;
} f;

void __wrap_writer_submit(struct writer *w, struct buf *b)
{
	pthread_mutex_lock(&f.lock);
	b->next = f.frames;
	f.frames = b;
	pthread_mutex_unlock(&f.lock);
}

static void on_failure(void *user_data, int err)
{
	f.failure = err;
	f.failures++;
}

static const uint8_t snapshot_id[16] = {9, 8, 7, 6, 5, 4, 3, 2, 1};

static int start(enum snap_compress compress, int level, unsigned workers)
{
	struct encode_options o = {
		.pool = f.pool,
		.compress = compress,
		.level = level,
		.workers = workers,
		.sink = {on_failure, NULL},
	};

	memcpy(o.snapshot_id, snapshot_id, sizeof(snapshot_id));
	return encode_start(&f.encoder, &o);
}

static int setup(void **state)
{
	memset(&fake, 0, sizeof(fake));
	memset(&f, 0, sizeof(f));
	pthread_mutex_init(&f.lock, NULL);
	return bufpool_create(&f.pool, 32 * MIB, KEPT);
}

static void put_frames(void)
{
	struct buf *b;

	while ((b = f.frames)) {
		f.frames = b->next;
		bufpool_put(f.pool, b);
	}
}

static void stop(void)
{
	encode_stop(f.encoder);
	f.encoder = NULL;
	put_frames();
	assert_int_equal(bufpool_lent(f.pool), 0);
}

static int teardown(void **state)
{
	encode_stop(f.encoder);
	put_frames();
	bufpool_destroy(f.pool);
	pthread_mutex_destroy(&f.lock);
	return 0;
}

/* ---- memory to capture ---- */

enum content {
	MIXED,
	RANDOM_DATA,
	ALL_ZERO,
	SKIP_CONTENT, /* for the checks: whatever it is */
};

/* What page @page of region @region holds; regions differ. */
static void fill_page(uint8_t *p, unsigned region, uint64_t page,
		      enum content content)
{
	uint64_t seed = (region + 1) * 0x9e3779b97f4a7c15u + page;

	memset(p, 0, PAGE_BYTES);
	if (content == ALL_ZERO || (content == MIXED && page % 7 < 3))
		return;
	for (size_t i = 0; i < PAGE_BYTES; i += 8) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		if (content == RANDOM_DATA || i % 64 == 0)
			memcpy(p + i, &seed, sizeof(seed));
	}
	if (content == MIXED && page % 5 == 0) { /* one byte, at the very end */
		memset(p, 0, PAGE_BYTES);
		p[PAGE_BYTES - 1] = 1;
	}
}

static void add_extent(struct buf *b, unsigned region, uint64_t first,
		       uint32_t count, enum frame_kind kind)
{
	b->extents[b->extent_count++] = (struct frame_extent){
		.first_page = first,
		.count = count,
		.region = (uint16_t)region,
		.kind = (uint16_t)kind,
	};
}

static void capture(struct buf *b, unsigned region, uint64_t first,
		    uint32_t count, enum content content)
{
	add_extent(b, region, first, count, FRAME_DATA);
	for (uint32_t i = 0; i < count; i++) {
		fill_page(b->payload + b->payload_len, region, first + i,
			  content);
		b->payload_len += PAGE_BYTES;
	}
}

static struct buf *get_buf(void)
{
	struct buf *b = bufpool_get_sweep(f.pool);

	assert_non_null(b);
	return b;
}

/* ---- looking into frames ---- */
struct tally {
	unsigned frames, compressed, extents;
	uint64_t pages_data, pages_zero, pages_absent, bytes;
};

static void assert_zero_page(unsigned region, uint64_t page,
			     enum content content)
{
	uint8_t want[PAGE_BYTES];

	fill_page(want, region, page, content);
	for (size_t i = 0; i < PAGE_BYTES; i++)
		assert_int_equal(want[i], 0);
}

/* Compare the pages of one extent; returns where the next one's begin. */
static const uint8_t *check_extent(struct tally *t,
				   const struct frame_extent *e,
				   const uint8_t *raw, enum content content)
{
	uint8_t want[PAGE_BYTES];

	if (e->kind == FRAME_ABSENT)
		t->pages_absent += e->count;
	if (e->kind == FRAME_ZERO)
		t->pages_zero += e->count;
	if (e->kind == FRAME_DATA)
		t->pages_data += e->count;
	for (uint32_t i = 0; e->kind != FRAME_ABSENT && i < e->count; i++) {
		if (e->kind == FRAME_ZERO && content != SKIP_CONTENT)
			assert_zero_page(e->region, e->first_page + i, content);
		if (e->kind == FRAME_DATA && content != SKIP_CONTENT) {
			fill_page(want, e->region, e->first_page + i, content);
			assert_memory_equal(raw, want, PAGE_BYTES);
		}
		if (e->kind == FRAME_DATA)
			raw += PAGE_BYTES;
	}
	return raw;
}

static void check_shape(const struct buf *b, const struct format_frame *h)
{
	size_t room = format_frame_header_room(h->extent_count);

	assert_ptr_equal(b->frame + room, b->payload);
	assert_true(is_aligned((uintptr_t)b->frame, FORMAT_ALIGN));
	assert_int_equal(b->frame_len,
			 format_frame_size(h->extent_count, h->stored_len));
	for (size_t i = room + h->stored_len; i < b->frame_len; i++)
		assert_int_equal(b->frame[i], 0);
	assert_int_equal(b->entry.length, b->frame_len);
	assert_int_equal(b->entry.header_checksum, h->header_checksum);
	assert_int_equal(h->snapshot_tag, format_tag(snapshot_id));
	assert_int_equal(h->payload_checksum,
			 format_checksum(b->payload, h->stored_len));
}

static void check_frame(struct tally *t, const struct buf *b,
			enum content content)
{
	static struct frame_extent extents[FRAME_EXTENTS_MAX];
	uint64_t data = t->pages_data, zero = t->pages_zero;
	uint8_t *raw = malloc(BUF_PAYLOAD_ROOM);
	const uint8_t *at = raw;
	struct format_frame h;

	assert_non_null(raw);
	assert_null(format_get_frame(b->frame, &h, extents));
	check_shape(b, &h);
	if (h.codec == FRAME_CODEC_ZSTD)
		assert_int_equal(ZSTD_decompress(raw, BUF_PAYLOAD_ROOM,
						 b->payload, h.stored_len),
				 h.raw_len);
	else
		memcpy(raw, b->payload, h.stored_len);
	for (uint32_t i = 0; i < h.extent_count; i++)
		at = check_extent(t, &extents[i], at, content);
	assert_int_equal(at - raw, h.raw_len);
	assert_int_equal(b->entry.pages_data, t->pages_data - data);
	assert_int_equal(b->entry.pages_zero, t->pages_zero - zero);
	t->frames++;
	t->compressed += h.codec == FRAME_CODEC_ZSTD;
	t->extents += h.extent_count;
	t->bytes += b->frame_len;
	free(raw);
}

static void check_frames(struct tally *t, enum content content)
{
	pthread_mutex_lock(&f.lock);
	for (const struct buf *b = f.frames; b; b = b->next)
		check_frame(t, b, content);
	pthread_mutex_unlock(&f.lock);
}

static void a_zero_test_agrees_with_a_naive_one(void **state)
{
	uint8_t *p = aligned_alloc(PAGE_BYTES, PAGE_BYTES);

	assert_non_null(p);
	memset(p, 0, PAGE_BYTES);
	for (size_t len = 0; len <= PAGE_BYTES; len += 64) {
		assert_true(encode_is_zero(p, len));
		for (size_t i = 0; i < PAGE_BYTES; i += 1 + len / 64) {
			p[i] = (uint8_t)(1u << (i % 8));
			assert_int_equal(encode_is_zero(p, len), i >= len);
			p[i] = 0;
		}
	}
	free(p);
}

static void frames_decode_to_what_was_captured(void **state)
{
	static const enum snap_compress how[] = {SNAP_COMPRESS_NONE,
						 SNAP_COMPRESS_ZSTD};
	struct tally t;

	for (size_t i = 0; i < ARRAY_SIZE(how); i++) {
		assert_int_equal(start(how[i], 0, 2), 0);
		memset(&t, 0, sizeof(t));
		for (unsigned n = 0; n < KEPT; n++) {
			struct buf *b = get_buf();

			capture(b, 0, n * 400, 200, MIXED);
			add_extent(b, 0, n * 400 + 200, 1000, FRAME_ABSENT);
			capture(b, 3, n, 1, MIXED);
			capture(b, 1, n * 400, 311, MIXED);
			encode_submit(f.encoder, b);
		}
		encode_drain(f.encoder);
		check_frames(&t, MIXED);
		assert_int_equal(t.frames, KEPT);
		assert_int_equal(t.pages_absent, KEPT * 1000);
		assert_int_equal(t.pages_data + t.pages_zero, KEPT * 512);
		assert_true(t.pages_zero > KEPT * 100);
		assert_int_equal(encode_zero_pages(f.encoder), t.pages_zero);
		assert_int_equal(encode_data_pages(f.encoder), t.pages_data);
		assert_int_equal(t.compressed,
				 how[i] == SNAP_COMPRESS_ZSTD ? KEPT : 0);
		stop();
	}
	assert_int_equal(f.failures, 0);
}

static void every_level_decodes(void **state)
{
	static const int levels[] = {-5, 1, 3, 9};
	struct tally t;

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		struct buf *b = get_buf();

		memset(&t, 0, sizeof(t));
		assert_int_equal(start(SNAP_COMPRESS_ZSTD, levels[i], 1), 0);
		capture(b, 0, 0, 512, MIXED);
		encode_submit(f.encoder, b);
		encode_drain(f.encoder);
		check_frames(&t, MIXED);
		assert_int_equal(t.compressed, 1);
		stop();
	}
}

static void data_that_does_not_shrink_is_stored_as_it_is(void **state)
{
	struct tally t = {0};
	struct buf *b = get_buf();

	assert_int_equal(start(SNAP_COMPRESS_ZSTD, 1, 1), 0);
	capture(b, 0, 0, 512, RANDOM_DATA);
	encode_submit(f.encoder, b);
	b = get_buf(); /* one page cannot get smaller than a page */
	capture(b, 0, 512, 1, RANDOM_DATA);
	encode_submit(f.encoder, b);
	encode_drain(f.encoder);
	check_frames(&t, RANDOM_DATA);
	assert_int_equal(t.frames, 2);
	assert_int_equal(t.compressed, 0);
	stop();
}

static void zero_and_absent_pages_make_a_frame_of_a_header(void **state)
{
	struct tally t = {0};
	struct buf *b = get_buf();

	assert_int_equal(start(SNAP_COMPRESS_ZSTD, 1, 1), 0);
	add_extent(b, 2, 77, 100000, FRAME_ABSENT);
	encode_submit(f.encoder, b);
	b = get_buf();
	capture(b, 0, 0, 512, ALL_ZERO);
	encode_submit(f.encoder, b);
	encode_drain(f.encoder);
	check_frames(&t, ALL_ZERO);
	assert_int_equal(t.frames, 2);
	assert_int_equal(t.bytes, 2 * FORMAT_ALIGN);
	assert_int_equal(t.pages_zero, 512);
	assert_int_equal(t.pages_absent, 100000);
	stop();
}

static void runs_of_one_kind_are_one_extent(void **state)
{
	struct tally t = {0};
	struct buf *b = get_buf();

	assert_int_equal(start(SNAP_COMPRESS_NONE, 0, 1), 0);
	for (unsigned i = 0; i < 100; i++)
		capture(b, 0, i, 1, RANDOM_DATA);
	add_extent(b, 0, 100, 5, FRAME_ABSENT);
	add_extent(b, 0, 105, 6, FRAME_ABSENT);
	capture(b, 1, 111, 1, RANDOM_DATA); /* another region */
	capture(b, 1, 113, 1, RANDOM_DATA); /* a gap */
	encode_submit(f.encoder, b);
	encode_drain(f.encoder);
	check_frames(&t, RANDOM_DATA);
	assert_int_equal(t.extents, 4);
	stop();
}

/* As many extents as capture may make, and every page splits off. */
static void the_most_extents_fit(void **state)
{
	struct tally t = {0};
	struct buf *b = get_buf();
	unsigned pages = 0;

	assert_int_equal(start(SNAP_COMPRESS_NONE, 0, 1), 0);
	while (b->extent_count < BUF_EXTENTS_CAPTURE - 1)
		add_extent(b, 9, b->extent_count * 2, 1, FRAME_ABSENT);
	add_extent(b, 0, 0, 512, FRAME_DATA);
	for (; pages < 512; pages++) {
		fill_page(b->payload + b->payload_len, 0, pages,
			  pages % 2 ? RANDOM_DATA : ALL_ZERO);
		b->payload_len += PAGE_BYTES;
	}
	encode_submit(f.encoder, b);
	encode_drain(f.encoder);
	check_frames(&t, SKIP_CONTENT);
	assert_int_equal(t.extents, BUF_EXTENTS_CAPTURE - 1 + 512);
	assert_int_equal(t.pages_zero, 256);
	stop();
}

static void only_a_compressor_wants_outputs(void **state)
{
	assert_int_equal(encode_outputs(SNAP_COMPRESS_DEFAULT, 3), 0);
	assert_int_equal(encode_outputs(SNAP_COMPRESS_NONE, 3), 0);
	assert_true(encode_outputs(SNAP_COMPRESS_ZSTD, 3) > 3);
}

static void draining_nothing_returns(void **state)
{
	assert_int_equal(start(SNAP_COMPRESS_NONE, 0, 2), 0);
	encode_drain(f.encoder);
	stop();
}

static void buffers_flow_through_many_times(void **state)
{
	struct tally t;

	assert_int_equal(start(SNAP_COMPRESS_ZSTD, 1, 2), 0);
	for (unsigned round = 0; round < 20; round++) {
		memset(&t, 0, sizeof(t));
		for (unsigned i = 0; i < 4; i++) {
			struct buf *b = get_buf();

			capture(b, i, round, 16, MIXED);
			encode_submit(f.encoder, b);
		}
		encode_drain(f.encoder);
		check_frames(&t, MIXED);
		assert_int_equal(t.frames, 4);
		put_frames();
	}
	stop();
}

static void stopping_gives_queued_buffers_back(void **state)
{
	struct buf *held[KEPT];

	/* The worker waits for an output, the others wait for the worker. */
	for (unsigned i = 0; i < KEPT; i++)
		held[i] = bufpool_get_output(f.pool);
	assert_int_equal(start(SNAP_COMPRESS_ZSTD, 1, 1), 0);
	for (unsigned i = 0; i < 4; i++) {
		struct buf *b = get_buf();

		capture(b, 0, i * 16, 16, RANDOM_DATA);
		encode_submit(f.encoder, b);
	}
	usleep(20000);
	assert_int_equal(bufpool_lent(f.pool), KEPT + 4);
	bufpool_close(f.pool);
	encode_stop(f.encoder);
	f.encoder = NULL;
	assert_null(f.frames);
	assert_int_equal(bufpool_lent(f.pool), KEPT);
	assert_int_equal(f.failures, 0);
	for (unsigned i = 0; i < KEPT; i++)
		bufpool_put(f.pool, held[i]);
	encode_stop(NULL);
}

static void a_failing_compressor_is_told_and_keeps_no_buffer(void **state)
{
	struct buf *b = get_buf();

	assert_int_equal(start(SNAP_COMPRESS_ZSTD, 1, 1), 0);
	fake.compress_fails = true;
	capture(b, 0, 0, 16, MIXED);
	encode_submit(f.encoder, b);
	encode_drain(f.encoder);
	assert_int_equal(f.failures, 1);
	assert_int_equal(f.failure, -ENOMEM);
	assert_null(f.frames);
	assert_int_equal(bufpool_lent(f.pool), 0);
	stop();
}

static void a_start_that_fails_leaves_nothing(void **state)
{
	fake.no_context = true;
	assert_int_equal(start(SNAP_COMPRESS_ZSTD, 1, 2), -ENOMEM);
	assert_non_null(strstr(error_text(), "compressor"));
	fake.no_context = false;
	fake.compress_fails = true;
	assert_int_equal(start(SNAP_COMPRESS_ZSTD, 1, 2), -ENOMEM);
	fake.compress_fails = false;
	for (int n = 1; n <= 2; n++) {
		fake.thread_starts_until_failure = n;
		assert_int_equal(start(SNAP_COMPRESS_ZSTD, 1, 2), -EAGAIN);
	}
	assert_null(f.encoder);
	assert_int_equal(f.failures, 0);
	assert_int_equal(bufpool_lent(f.pool), 0);
}

#define with_pool(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_zero_test_agrees_with_a_naive_one),
		with_pool(frames_decode_to_what_was_captured),
		with_pool(every_level_decodes),
		with_pool(data_that_does_not_shrink_is_stored_as_it_is),
		with_pool(zero_and_absent_pages_make_a_frame_of_a_header),
		with_pool(runs_of_one_kind_are_one_extent),
		with_pool(the_most_extents_fit),
		cmocka_unit_test(only_a_compressor_wants_outputs),
		with_pool(draining_nothing_returns),
		with_pool(buffers_flow_through_many_times),
		with_pool(stopping_gives_queued_buffers_back),
		with_pool(a_failing_compressor_is_told_and_keeps_no_buffer),
		with_pool(a_start_that_fails_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

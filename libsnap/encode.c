// SPDX-License-Identifier: MIT
/*
 * Turns captured buffers into frames: zero test, zstd, checksum, header.
 *
 * How it works.  encode_submit() appends to a FIFO; each worker takes one
 * buffer at a time and does all the steps on it.  encode_drain() waits until
 * the FIFO is empty and no worker is busy, at which point every frame has been
 * handed to the writer.  A worker may wait in bufpool_get_output(); the writer
 * gives outputs back whether its writes succeed or not, so that wait ends as
 * long as the writer lives, and bufpool_close() ends it too.
 *
 * Lock order: encoder.lock is never held while another module is called.
 */
#include "encode.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "format.h"
#include "thread.h"
#include "writer.h"

struct worker {
	struct encoder *encoder;
	ZSTD_CCtx *zstd; /* NULL: not compressing */
	pthread_t thread;
	unsigned extent_count;
	struct frame_extent extents[FRAME_EXTENTS_MAX];
};

struct encoder {
	struct bufpool *pool;
	struct writer *writer;
	struct failure_sink sink;
	uint64_t snapshot_tag;
	atomic_uint_least64_t pages_zero;
	atomic_uint_least64_t pages_data;

	pthread_mutex_t lock; /* the FIFO, busy and stopping */
	pthread_cond_t work;
	pthread_cond_t idle;
	struct buf *head, *tail;
	unsigned busy;
	bool stopping;

	unsigned worker_count; /* started ones */
	struct worker workers[];
};

unsigned encode_outputs(enum snap_compress compress, unsigned workers)
{
	/* One in each worker's hands, and some on their way to the disk. */
	return compress == SNAP_COMPRESS_ZSTD ? workers + 2 : 0;
}

/* 64 bytes: a cache line, and what AVX-512 takes at once; the compiler makes
 * four SSE2 operations of it where there is nothing better. */
typedef uint64_t line_t __attribute__((vector_size(64), may_alias));

static bool line_is_zero(const line_t *v)
{
	const line_t l = *v;

	return !(l[0] | l[1] | l[2] | l[3] | l[4] | l[5] | l[6] | l[7]);
}

bool encode_is_zero(const void *p, size_t len)
{
	const line_t *v = p;
	const line_t *end = v + len / sizeof(*v);

	assert(is_aligned((uintptr_t)p, 64) && is_aligned(len, 64));
	/* Data mostly shows itself at once. */
	if (v < end && !line_is_zero(v))
		return false;
	for (; end - v >= 8; v += 8) {
		const line_t l =
			v[0] | v[1] | v[2] | v[3] | v[4] | v[5] | v[6] | v[7];

		if (!line_is_zero(&l))
			return false;
	}
	for (; v < end; v++)
		if (!line_is_zero(v))
			return false;
	return true;
}

static void add_pages(struct worker *k, const struct frame_extent *from,
		      uint32_t skip, uint32_t count, enum frame_kind kind)
{
	struct frame_extent *last;

	if (k->extent_count) {
		last = &k->extents[k->extent_count - 1];
		if (last->kind == kind && last->region == from->region &&
		    last->first_page + last->count == from->first_page + skip) {
			last->count += count;
			return;
		}
	}
	assert(k->extent_count < FRAME_EXTENTS_MAX);
	k->extents[k->extent_count++] = (struct frame_extent){
		.first_page = from->first_page + skip,
		.count = count,
		.region = from->region,
		.kind = (uint16_t)kind,
	};
}

/*
 * Split zero pages off and close the gaps they leave.  A page is looked at and
 * moved while it is in the cache, and nothing is moved before the first zero
 * page.
 */
static void elide_zero_pages(struct worker *k, struct buf *b)
{
	uint8_t *from = b->payload, *to = b->payload;

	k->extent_count = 0;
	for (unsigned i = 0; i < b->extent_count; i++) {
		const struct frame_extent *e = &b->extents[i];

		if (e->kind != FRAME_DATA) {
			add_pages(k, e, 0, e->count, e->kind);
			if (e->kind == FRAME_ZERO)
				b->entry.pages_zero += e->count;
			continue;
		}
		for (uint32_t page = 0; page < e->count; page++) {
			if (encode_is_zero(from, PAGE_BYTES)) {
				add_pages(k, e, page, 1, FRAME_ZERO);
				b->entry.pages_zero++;
			} else {
				add_pages(k, e, page, 1, FRAME_DATA);
				b->entry.pages_data++;
				if (to != from)
					memcpy(to, from, PAGE_BYTES);
				to += PAGE_BYTES;
			}
			from += PAGE_BYTES;
		}
	}
	assert((size_t)(from - b->payload) == b->payload_len);
	b->payload_len = (size_t)(to - b->payload);
	b->extent_count = k->extent_count;
	memcpy(b->extents, k->extents, k->extent_count * sizeof(*k->extents));
}

/* zstd makes @b smaller by a page at least: into an output buffer, which then
 * replaces it.  Returns NULL when it does not or when the pool is closed. */
static struct buf *compress_payload(struct worker *k, struct buf *b, int *err)
{
	struct encoder *e = k->encoder;
	struct buf *out;
	size_t n;

	if (!k->zstd || b->payload_len <= PAGE_BYTES)
		return NULL;
	out = bufpool_get_output(e->pool);
	if (!out) {
		*err = -ECANCELED;
		return NULL;
	}
	n = ZSTD_compress2(k->zstd, out->payload, b->payload_len - PAGE_BYTES,
			   b->payload, b->payload_len);
	if (!ZSTD_isError(n)) {
		out->payload_len = n;
		return out;
	}
	bufpool_put(e->pool, out);
	if (ZSTD_getErrorCode(n) != ZSTD_error_dstSize_tooSmall)
		*err = error_set(-ENOMEM, SNAP_FAILURE_INTERNAL,
				 "zstd cannot compress: %s",
				 ZSTD_getErrorName(n));
	return NULL;
}

static void take_over(struct buf *out, struct buf *b)
{
	out->entry = b->entry;
	out->extent_count = b->extent_count;
	memcpy(out->extents, b->extents, b->extent_count * sizeof(*b->extents));
}

/* The header ends where the payload begins, so that both are one write. */
static void put_header(const struct encoder *e, struct buf *b,
		       enum frame_codec codec, size_t raw_len)
{
	const struct format_frame h = {
		.snapshot_tag = e->snapshot_tag,
		.codec = codec,
		.extent_count = b->extent_count,
		.raw_len = raw_len,
		.stored_len = b->payload_len,
		.payload_checksum = format_checksum(b->payload, b->payload_len),
	};
	size_t room = format_frame_header_room(b->extent_count);
	size_t padded = align_up(b->payload_len, FORMAT_ALIGN);

	memset(b->payload + b->payload_len, 0, padded - b->payload_len);
	b->frame = b->payload - room;
	b->frame_len = room + padded;
	b->entry.length = b->frame_len;
	b->entry.header_checksum = format_put_frame(b->frame, &h, b->extents);
}

static int encode(struct worker *k, struct buf *b)
{
	struct encoder *e = k->encoder;
	enum frame_codec codec = FRAME_CODEC_NONE;
	struct buf *out;
	size_t raw;
	int err = 0;

	elide_zero_pages(k, b);
	raw = b->payload_len;
	out = compress_payload(k, b, &err);
	if (out) {
		take_over(out, b);
		bufpool_put(e->pool, b);
		b = out;
		codec = FRAME_CODEC_ZSTD;
	}
	if (err) {
		bufpool_put(e->pool, b);
		return err;
	}
	atomic_fetch_add_explicit(&e->pages_zero, b->entry.pages_zero,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&e->pages_data, b->entry.pages_data,
				  memory_order_relaxed);
	put_header(e, b, codec, raw);
	writer_submit(e->writer, b);
	return 0;
}

static struct buf *next_buf(struct encoder *e)
{
	struct buf *b = NULL;

	pthread_mutex_lock(&e->lock);
	while (!e->head && !e->stopping)
		pthread_cond_wait(&e->work, &e->lock);
	if (!e->stopping) {
		b = e->head;
		e->head = b->next;
		b->next = NULL;
		e->busy++;
	}
	pthread_mutex_unlock(&e->lock);
	return b;
}

static void buf_is_done(struct encoder *e)
{
	pthread_mutex_lock(&e->lock);
	e->busy--;
	if (!e->busy && !e->head)
		pthread_cond_broadcast(&e->idle);
	pthread_mutex_unlock(&e->lock);
}

static void *worker_main(void *arg)
{
	struct worker *k = arg;
	struct encoder *e = k->encoder;
	struct buf *b;
	int err;

	thread_background();

	while ((b = next_buf(e))) {
		err = encode(k, b);
		if (err && err != -ECANCELED)
			failure_report(&e->sink, err);
		buf_is_done(e);
	}
	return NULL;
}

/*
 * A context with all the memory it will need: a frame of full size is
 * compressed once.  Nothing is allocated later unless frames are small for so
 * long that zstd decides to shrink its tables.
 */
static ZSTD_CCtx *make_context(int level)
{
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	void *zeros = calloc(1, BUF_PAYLOAD_ROOM);
	char compressed[4096];
	size_t n;

	if (zstd && zeros) {
		n = ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel,
					   level ? level : 1);
		if (!ZSTD_isError(n))
			n = ZSTD_compress2(zstd, compressed, sizeof(compressed),
					   zeros, BUF_PAYLOAD_ROOM);
		if (!ZSTD_isError(n)) {
			free(zeros);
			return zstd;
		}
	}
	free(zeros);
	ZSTD_freeCCtx(zstd);
	error_nomem("a compressor");
	return NULL;
}

static int start_worker(struct encoder *e, const struct encode_options *opts)
{
	struct worker *k = &e->workers[e->worker_count];
	char name[16];
	int err;

	k->encoder = e;
	if (opts->compress == SNAP_COMPRESS_ZSTD) {
		k->zstd = make_context(opts->level);
		if (!k->zstd)
			return -ENOMEM;
	}
	snprintf(name, sizeof(name), "snap-encode-%u", e->worker_count % 100);
	err = thread_start(&k->thread, name, worker_main, k);
	if (err) {
		ZSTD_freeCCtx(k->zstd);
		return err;
	}
	e->worker_count++;
	return 0;
}

int encode_start(struct encoder **out, const struct encode_options *opts)
{
	struct encoder *e;
	int err = 0;

	assert(opts->workers);
	e = calloc(1, sizeof(*e) + opts->workers * sizeof(e->workers[0]));
	if (!e)
		return error_nomem("the encoder");
	e->pool = opts->pool;
	e->writer = opts->writer;
	e->sink = opts->sink;
	e->snapshot_tag = format_tag(opts->snapshot_id);
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->work, NULL);
	pthread_cond_init(&e->idle, NULL);
	while (!err && e->worker_count < opts->workers)
		err = start_worker(e, opts);
	if (err) {
		encode_stop(e);
		return err;
	}
	*out = e;
	return 0;
}

void encode_submit(struct encoder *e, struct buf *b)
{
	b->next = NULL;
	pthread_mutex_lock(&e->lock);
	if (e->head)
		e->tail->next = b;
	else
		e->head = b;
	e->tail = b;
	pthread_cond_signal(&e->work);
	pthread_mutex_unlock(&e->lock);
}

void encode_drain(struct encoder *e)
{
	pthread_mutex_lock(&e->lock);
	while (e->head || e->busy)
		pthread_cond_wait(&e->idle, &e->lock);
	pthread_mutex_unlock(&e->lock);
}

uint64_t encode_zero_pages(const struct encoder *e)
{
	return atomic_load_explicit(&e->pages_zero, memory_order_relaxed);
}

uint64_t encode_data_pages(const struct encoder *e)
{
	return atomic_load_explicit(&e->pages_data, memory_order_relaxed);
}

void encode_stop(struct encoder *e)
{
	struct buf *b;

	if (!e)
		return;
	pthread_mutex_lock(&e->lock);
	e->stopping = true;
	pthread_cond_broadcast(&e->work);
	pthread_mutex_unlock(&e->lock);
	for (unsigned i = 0; i < e->worker_count; i++) {
		pthread_join(e->workers[i].thread, NULL);
		ZSTD_freeCCtx(e->workers[i].zstd);
	}
	while ((b = e->head)) {
		e->head = b->next;
		bufpool_put(e->pool, b);
	}
	pthread_cond_destroy(&e->idle);
	pthread_cond_destroy(&e->work);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

/* SPDX-License-Identifier: MIT */
/* One writer in a directory of its own, frames to write and what to expect. */
#ifndef TESTS_UNIT_WRITER_FIXTURE_H
#define TESTS_UNIT_WRITER_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "bufpool.h"
#include "error.h"
#include "format.h"
#include "sys.h"
#include "writer.h"

/* After ours: it makes a macro of fail, the member of struct failure_sink. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HEAD_LEN (3 * PAGE_BYTES)
#define FRAME_LEN (256 * KIB)
#define FRAMES 40u
#define RESERVE (16 * MIB)

/** The test's own: back to the real calls. */
static void reset_fakes(void);

static struct fixture {
	struct bufpool *pool;
	struct writer *writer;
	char dir[64], path[96];
	bool mounted;
	atomic_int failures; /* the sink was told */
	atomic_int failure;
	char failure_text[ERROR_TEXT_MAX];
} f;

static inline void on_failure(void *user_data, int err)
{
	struct fixture *fix = user_data;

	snprintf(fix->failure_text, sizeof(fix->failure_text), "%s",
		 error_text());
	atomic_store(&fix->failure, err);
	atomic_fetch_add(&fix->failures, 1);
}

static inline int setup(void **state)
{
	reset_fakes();
	memset(&f, 0, sizeof(f));
	strcpy(f.dir, "snap-test-XXXXXX");
	if (!mkdtemp(f.dir))
		return -1;
	snprintf(f.path, sizeof(f.path), "%s/guest.snap", f.dir);
	return bufpool_create(&f.pool, 32 * MIB, 0);
}

static inline int teardown(void **state)
{
	writer_close(f.writer);
	if (f.pool && bufpool_lent(f.pool))
		return -1;
	bufpool_destroy(f.pool);
	unlink(f.path);
	if (f.mounted)
		umount2(f.dir, MNT_DETACH);
	return rmdir(f.dir); /* fails when something is left behind */
}

static inline unsigned files_left(void)
{
	DIR *d = opendir(f.dir);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static inline int try_open(struct writer_options o)
{
	o.pool = f.pool;
	o.sink = (struct failure_sink){on_failure, &f};
	return writer_open(&f.writer, &o);
}

static inline void open_file(unsigned flags)
{
	assert_int_equal(try_open((struct writer_options){
				 .path = f.path,
				 .flags = flags,
				 .reserve = RESERVE,
			 }),
			 0);
}

static inline void open_stream(int fd)
{
	assert_int_equal(try_open((struct writer_options){.fd = fd}), 0);
}

static inline void fill(uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i += sizeof(uint32_t)) {
		uint32_t v = seed * 2654435761u + (uint32_t)i;

		memcpy(p + i, &v, sizeof(v));
	}
}

static inline void send_head(void)
{
	uint8_t *head = malloc(HEAD_LEN);

	assert_non_null(head);
	fill(head, HEAD_LEN, 1000);
	writer_head(f.writer, head, HEAD_LEN);
}

static inline void send_frames_of(unsigned from, unsigned to, size_t len)
{
	struct buf *b;

	for (unsigned i = from; i < to; i++) {
		b = bufpool_get_sweep(f.pool);
		assert_non_null(b);
		fill(b->payload, len, i);
		b->frame = b->payload;
		b->frame_len = len;
		b->entry.length = len;
		b->entry.header_checksum = i;
		b->entry.pages_data = (uint32_t)(len / PAGE_BYTES);
		writer_submit(f.writer, b);
	}
}

static inline void send_frames(unsigned n)
{
	send_head();
	send_frames_of(0, n, FRAME_LEN);
}

static inline int finish(void)
{
	struct writer_totals totals = {
		.snapshot_id = {1, 2, 3},
		.pages_total = 2,
		.pages_data = 1,
		.pages_zero = 1,
	};

	return writer_finish(f.writer, &totals);
}

static inline void assert_block(int fd, size_t len, unsigned seed)
{
	uint8_t *want = malloc(len), *got = malloc(len);
	size_t done = 0;
	ssize_t n;

	assert_non_null(want);
	assert_non_null(got);
	fill(want, len, seed);
	while (done < len) {
		n = read(fd, got + done, len - done);
		assert_true(n > 0);
		done += (size_t)n;
	}
	assert_memory_equal(got, want, len);
	free(got);
	free(want);
}

/* Head and frames, at the reading position of @fd. */
static inline void assert_body(int fd, unsigned frames)
{
	assert_block(fd, HEAD_LEN, 1000);
	for (unsigned i = 0; i < frames; i++)
		assert_block(fd, FRAME_LEN, i);
}

static inline uint64_t bytes_written(void)
{
	uint64_t bytes, writes, syscalls;

	writer_counts(f.writer, &bytes, &writes, &syscalls);
	return bytes;
}

/* The footer leads to the index, and the index to every frame. */
static inline void assert_tail(int fd, uint64_t size, unsigned frames)
{
	struct format_footer footer;
	struct format_totals totals;
	struct index_entry e;
	uint8_t block[FORMAT_FOOTER_SIZE];
	uint8_t *index;
	uint64_t n;

	assert_int_equal(
		sys_pread(fd, block, sizeof(block), size - sizeof(block)),
		sizeof(block));
	assert_null(format_get_footer(block, &footer));
	assert_int_equal(footer.image_length, size);
	assert_int_equal(footer.snapshot_tag,
			 format_tag((const uint8_t[16]){1, 2, 3}));
	index = malloc(footer.index_length);
	assert_non_null(index);
	assert_int_equal(
		sys_pread(fd, index, footer.index_length, footer.index_offset),
		footer.index_length);
	assert_null(format_get_index_count(index, footer.index_length, &n));
	assert_null(format_get_index(index, footer.index_length,
				     footer.index_checksum, &totals));
	assert_int_equal(n, frames);
	assert_int_equal(totals.pages_zero, 1);
	for (unsigned i = 0; i < frames; i++) {
		format_get_entry(index, i, &e);
		assert_int_equal(e.offset, HEAD_LEN + i * FRAME_LEN);
		assert_int_equal(e.length, FRAME_LEN);
		assert_int_equal(e.header_checksum, i);
		assert_int_equal(e.pages_data, FRAME_LEN / PAGE_BYTES);
	}
	free(index);
}

static inline void assert_image(unsigned frames)
{
	int fd = open(f.path, O_RDONLY);
	struct stat st;

	assert_true(fd >= 0);
	assert_body(fd, frames);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, bytes_written());
	assert_tail(fd, (uint64_t)st.st_size, frames);
	close(fd);
	assert_int_equal(files_left(), 1);
	assert_int_equal(f.failures, 0);
	assert_int_equal(bufpool_lent(f.pool), 0);
}

/* finish() gave @err; the text, the sink, the pool and the disk agree. */
static inline void assert_failed(int err, const char *says)
{
	assert_int_equal(finish(), err);
	assert_non_null(strstr(error_text(), says));
	assert_int_equal(error_failure(), SNAP_FAILURE_OUTPUT);
	assert_int_equal(f.failures, 1);
	assert_int_equal(f.failure, err);
	assert_string_equal(f.failure_text, error_text());
	assert_int_equal(bufpool_lent(f.pool), 0);
	writer_close(f.writer);
	f.writer = NULL;
	assert_int_equal(access(f.path, F_OK), -1);
	assert_int_equal(files_left(), 0);
}

#define with_writer(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

#endif

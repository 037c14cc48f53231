// SPDX-License-Identifier: MIT
/* The writer to streams: pipes, sockets, borrowed files and nowhere. */
#include <pthread.h>
#include <sys/socket.h>

#include "unit/writer_fixture.h"

/* What every sys_write_nowait() gives; 0: the real thing. */
static atomic_int fake_nowait;

ssize_t __real_sys_write_nowait(int fd, const void *b, size_t len);
ssize_t __wrap_sys_write_nowait(int fd, const void *b, size_t len);

ssize_t __wrap_sys_write_nowait(int fd, const void *b, size_t len)
{
	return fake_nowait ? fake_nowait : __real_sys_write_nowait(fd, b, len);
}

static void reset_fakes(void)
{
	fake_nowait = 0;
}

struct drain {
	int fd;
	unsigned frames;
	pthread_t thread;
	uint64_t tail; /* bytes after the last frame */
	bool same;
};

/* cmocka's asserts are for the main thread; compare by hand. */
static void *drain_main(void *arg)
{
	struct drain *d = arg;
	size_t want = HEAD_LEN + d->frames * FRAME_LEN, done = 0;
	uint8_t *body = malloc(want), *expect = malloc(FRAME_LEN);
	char rest[4096];
	ssize_t n;

	while (done < want && (n = read(d->fd, body + done, want - done)) > 0)
		done += (size_t)n;
	fill(expect, HEAD_LEN, 1000);
	d->same = done == want && !memcmp(body, expect, HEAD_LEN);
	for (unsigned i = 0; d->same && i < d->frames; i++) {
		fill(expect, FRAME_LEN, i);
		d->same = !memcmp(body + HEAD_LEN + i * FRAME_LEN, expect,
				  FRAME_LEN);
	}
	while ((n = read(d->fd, rest, sizeof(rest))) > 0)
		d->tail += (uint64_t)n;
	free(expect);
	free(body);
	return NULL;
}

static void assert_streamed(int from, int to)
{
	struct drain d = {.fd = from, .frames = FRAMES};

	assert_int_equal(pthread_create(&d.thread, NULL, drain_main, &d), 0);
	open_stream(to);
	send_frames(FRAMES);
	assert_int_equal(finish(), 0);
	close(to);
	pthread_join(d.thread, NULL);
	assert_true(d.same);
	assert_int_equal(HEAD_LEN + FRAMES * FRAME_LEN + d.tail,
			 bytes_written());
	close(from);
	writer_close(f.writer);
	f.writer = NULL;
	assert_int_equal(bufpool_lent(f.pool), 0);
}

static void a_pipe_gets_it_all_in_order(void **state)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_streamed(fds[0], fds[1]);
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	assert_int_equal(fcntl(fds[0], F_SETFL, 0), 0);
	assert_streamed(fds[0], fds[1]);
	fake_nowait = -EOPNOTSUPP;
	assert_int_equal(pipe(fds), 0);
	assert_streamed(fds[0], fds[1]);
}

static void a_socket_gets_it_all_in_order(void **state)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_streamed(fds[0], fds[1]);
}

static void a_borrowed_file_gets_it_all_in_order(void **state)
{
	int fd = open(f.path, O_RDWR | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	open_stream(fd);
	send_frames(FRAMES);
	assert_int_equal(finish(), 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), bytes_written());
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_body(fd, FRAMES);
	close(fd);
}

static void a_borrowed_file_that_fails_ends_the_stream(void **state)
{
	int fd = open("/dev/null", O_WRONLY);

	assert_true(fd >= 0);
	open_stream(fd);
	fake_nowait = -ENOSPC;
	send_frames(2);
	assert_failed(-ENOSPC, "no room left");
	close(fd);
}

static void a_reader_that_goes_away_is_told(void **state)
{
	static const int nowait[] = {0, -EOPNOTSUPP};
	int fds[2];

	for (size_t i = 0; i < ARRAY_SIZE(nowait); i++) {
		fake_nowait = nowait[i];
		f.failures = 0;
		assert_int_equal(pipe(fds), 0);
		open_stream(fds[1]);
		send_frames(1);
		usleep(10000);
		close(fds[0]);
		assert_failed(-EPIPE, "the reader of the stream went away");
		close(fds[1]);
	}
}

static void a_sleeping_reader_does_not_hold_up_a_cancel(void **state)
{
	static const int nowait[] = {0, -EOPNOTSUPP, -EAGAIN};
	int fds[2];

	for (size_t i = 0; i < ARRAY_SIZE(nowait); i++) {
		fake_nowait = nowait[i];
		assert_int_equal(pipe(fds), 0);
		open_stream(fds[1]);
		send_frames(4);
		usleep(20000);
		writer_cancel(f.writer);
		/* Nobody reads: without the cancel this never returns. */
		assert_int_equal(finish(), -ECANCELED);
		assert_int_equal(bufpool_lent(f.pool), 0);
		writer_close(f.writer);
		f.writer = NULL;
		close(fds[0]);
		close(fds[1]);
	}
}

static void a_descriptor_that_is_none_is_refused(void **state)
{
	assert_int_equal(try_open((struct writer_options){.fd = 1000000}),
			 -EBADF);
	assert_non_null(strstr(error_text(), "descriptor 1000000"));
	assert_int_equal(error_failure(), SNAP_FAILURE_OUTPUT);
	assert_int_equal(f.failures, 0);
	assert_null(f.writer);
}

static void nowhere_counts_what_it_would_be(void **state)
{
	uint64_t bytes, writes, syscalls;

	open_stream(-1);
	send_frames(FRAMES);
	assert_int_equal(finish(), 0);
	writer_counts(f.writer, &bytes, &writes, &syscalls);
	assert_true(bytes > HEAD_LEN + FRAMES * FRAME_LEN);
	assert_int_equal(writes, 0);
	assert_int_equal(bufpool_lent(f.pool), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_writer(a_pipe_gets_it_all_in_order),
		with_writer(a_socket_gets_it_all_in_order),
		with_writer(a_borrowed_file_gets_it_all_in_order),
		with_writer(a_borrowed_file_that_fails_ends_the_stream),
		with_writer(a_reader_that_goes_away_is_told),
		with_writer(a_sleeping_reader_does_not_hold_up_a_cancel),
		with_writer(a_descriptor_that_is_none_is_refused),
		with_writer(nowhere_counts_what_it_would_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

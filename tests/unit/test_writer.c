// SPDX-License-Identifier: MIT
/* The writer to files: both backends, every failure, what is left after it. */
#include <liburing.h>
#include <sys/resource.h>

#include "unit/writer_fixture.h"

/* What io_uring's next completion of a write is turned into. */
enum cqe_fault {
	CQE_REAL,
	CQE_EIO,
	CQE_ENOSPC,
	CQE_EAGAIN,
	CQE_EINTR,
	CQE_SHORT,	  /* to an odd number of bytes */
	CQE_NOTHING_EVER, /* every write says 0 */
};

static struct {
	atomic_int queue_init, register_buffers;
	atomic_int cqe;		 /* enum cqe_fault */
	atomic_int submit;	 /* result of every io_uring_submit_and_wait */
	atomic_int submit_again; /* times -EAGAIN comes first */
	atomic_int pwrite;	 /* once, when pwrite_after is 0 */
	atomic_int pwrite_after;
	atomic_int pwrite_most;
	atomic_int fsync;
	atomic_int thread_start, eventfd;
} fake;

static struct {
	atomic_uint rings, pwrites, submits;
} seen;

int __real_io_uring_queue_init(unsigned n, struct io_uring *r, unsigned flags);
int __wrap_io_uring_queue_init(unsigned n, struct io_uring *r, unsigned flags);
int __real_io_uring_register_buffers(struct io_uring *r, const struct iovec *v,
				     unsigned n);
int __wrap_io_uring_register_buffers(struct io_uring *r, const struct iovec *v,
				     unsigned n);
int __real_io_uring_submit_and_wait(struct io_uring *r, unsigned n);
int __wrap_io_uring_submit_and_wait(struct io_uring *r, unsigned n);
ssize_t __real_sys_pwrite(int fd, const void *b, size_t len, uint64_t offset);
ssize_t __wrap_sys_pwrite(int fd, const void *b, size_t len, uint64_t offset);
int __real_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
			void *arg);
int __wrap_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
			void *arg);
int __real_sys_eventfd(unsigned initial);
int __wrap_sys_eventfd(unsigned initial);
int __real_sys_fsync(int fd);
int __wrap_sys_fsync(int fd);

int __wrap_io_uring_queue_init(unsigned n, struct io_uring *r, unsigned flags)
{
	if (fake.queue_init)
		return fake.queue_init;
	seen.rings++;
	return __real_io_uring_queue_init(n, r, flags);
}

int __wrap_io_uring_register_buffers(struct io_uring *r, const struct iovec *v,
				     unsigned n)
{
	if (fake.register_buffers)
		return fake.register_buffers;
	return __real_io_uring_register_buffers(r, v, n);
}

static bool spoil(struct io_uring_cqe *cqe)
{
	switch (fake.cqe) {
	case CQE_REAL:
		return false;
	case CQE_EIO:
		cqe->res = -EIO;
		break;
	case CQE_ENOSPC:
		cqe->res = -ENOSPC;
		break;
	case CQE_EAGAIN:
		cqe->res = -EAGAIN;
		break;
	case CQE_EINTR:
		cqe->res = -EINTR;
		break;
	case CQE_SHORT:
		cqe->res = cqe->res / 2 + 7;
		break;
	case CQE_NOTHING_EVER:
		cqe->res = 0;
		return false;
	}
	return true;
}

int __wrap_io_uring_submit_and_wait(struct io_uring *r, unsigned n)
{
	struct io_uring_cqe *cqe;
	unsigned head;
	int err;

	seen.submits++;
	if (fake.submit)
		return fake.submit;
	if (fake.submit_again) {
		fake.submit_again--;
		return -EAGAIN;
	}
	err = __real_io_uring_submit_and_wait(r, n);
	io_uring_for_each_cqe(r, head, cqe) if (cqe->user_data && spoil(cqe))
	{
		fake.cqe = CQE_REAL;
		break;
	}
	return err;
}

ssize_t __wrap_sys_pwrite(int fd, const void *b, size_t len, uint64_t offset)
{
	ssize_t result = fake.pwrite;

	seen.pwrites++;
	if (result && fake.pwrite_after-- == 0) {
		fake.pwrite = 0;
		return result;
	}
	if (fake.pwrite_most)
		len = min_u64(len, (size_t)fake.pwrite_most);
	return __real_sys_pwrite(fd, b, len, offset);
}

int __wrap_sys_fsync(int fd)
{
	return fake.fsync ? fake.fsync : __real_sys_fsync(fd);
}

int __wrap_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
			void *arg)
{
	if (fake.thread_start)
		return error_sys(fake.thread_start, SNAP_FAILURE_INTERNAL,
				 "cannot start thread %s", name);
	return __real_thread_start(out, name, fn, arg);
}

int __wrap_sys_eventfd(unsigned initial)
{
	return fake.eventfd ? fake.eventfd : __real_sys_eventfd(initial);
}

static void reset_fakes(void)
{
	memset(&fake, 0, sizeof(fake));
	memset(&seen, 0, sizeof(seen));
}

/* ---- files ---- */

static void a_file_holds_what_was_written(void **state)
{
	static const unsigned flags[] = {
		0,
		SNAP_NO_IO_URING,
		SNAP_NO_DIRECT,
		SNAP_NO_DIRECT | SNAP_NO_IO_URING,
		SNAP_NO_PREALLOCATE,
	};

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		open_file(flags[i]);
		send_frames(FRAMES);
		assert_int_equal(finish(), 0);
		assert_image(FRAMES);
		writer_close(f.writer);
		f.writer = NULL;
		assert_int_equal(unlink(f.path), 0);
	}
}

static void an_image_without_frames_is_written(void **state)
{
	open_file(0);
	send_head();
	assert_int_equal(finish(), 0);
	assert_image(0);
}

static void io_uring_is_used_unless_it_is_not_wanted(void **state)
{
	open_file(SNAP_NO_IO_URING);
	assert_int_equal(seen.rings, 0);
	writer_close(f.writer);
	open_file(0);
	if (!seen.rings)
		skip(); /* forbidden on this machine */
	seen.pwrites = 0;
	send_frames(FRAMES);
	assert_int_equal(finish(), 0);
	/* Only the head and the tail go by pwrite(). */
	assert_true(seen.pwrites < 5);
}

/* Submit, wake and complete each by itself is the worst; a busy disk makes it
 * less than one a frame. */
static void a_frame_takes_three_system_calls_at_most(void **state)
{
	static const unsigned flags[] = {0, SNAP_NO_IO_URING};
	uint64_t bytes, writes, before, after;

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		open_file(flags[i]);
		send_head();
		writer_counts(f.writer, &bytes, &writes, &before);
		send_frames_of(0, 100, FRAME_LEN);
		assert_int_equal(finish(), 0);
		writer_counts(f.writer, &bytes, &writes, &after);
		assert_true(after > before);
		assert_true(after - before <= 3 * 100 + 10);
		assert_true(writes >= 100 + 2);
		writer_close(f.writer);
		f.writer = NULL;
		assert_int_equal(unlink(f.path), 0);
	}
}

static void pwrite_does_where_io_uring_is_forbidden(void **state)
{
	static const int results[] = {-EPERM, -ENOSYS, -ENOMEM};

	for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
		fake.queue_init = results[i];
		open_file(0);
		send_frames(FRAMES);
		assert_int_equal(finish(), 0);
		assert_image(FRAMES);
		assert_true(seen.pwrites >= FRAMES);
		writer_close(f.writer);
		f.writer = NULL;
		assert_int_equal(unlink(f.path), 0);
	}
}

static void pwrite_does_where_the_ring_does_not_work(void **state)
{
	fake.submit = -EINVAL;
	open_file(0);
	send_frames(FRAMES);
	assert_int_equal(finish(), 0);
	assert_image(FRAMES);
	assert_true(seen.pwrites >= FRAMES);
}

static void memory_that_cannot_be_registered_is_written(void **s)
{
	fake.register_buffers = -ENOMEM;
	open_file(0);
	send_frames(FRAMES);
	assert_int_equal(finish(), 0);
	assert_image(FRAMES);
}

static void incomplete_completions_are_submitted_again(void **state)
{
	static const enum cqe_fault faults[] = {CQE_SHORT, CQE_EAGAIN,
						CQE_EINTR};
	static const unsigned flags[] = {0, SNAP_NO_DIRECT};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(faults); i++) {
		open_file(flags[i % 2]);
		fake.cqe = faults[i / 2];
		send_frames(FRAMES);
		assert_int_equal(finish(), 0);
		if (seen.rings)
			assert_int_equal(fake.cqe, CQE_REAL);
		assert_image(FRAMES);
		writer_close(f.writer);
		f.writer = NULL;
		assert_int_equal(unlink(f.path), 0);
	}
}

static void a_kernel_short_of_memory_is_asked_again(void **state)
{
	open_file(0);
	fake.submit_again = 5;
	send_frames(FRAMES);
	assert_int_equal(finish(), 0);
	assert_image(FRAMES);
}

static void short_writes_are_completed(void **state)
{
	static const unsigned flags[] = {0, SNAP_NO_DIRECT};

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		open_file(flags[i] | SNAP_NO_IO_URING);
		fake.pwrite_most = 5 * PAGE_BYTES;
		fake.pwrite = -EINTR;
		fake.pwrite_after = 3;
		send_frames(4);
		assert_int_equal(finish(), 0);
		fake.pwrite_most = 0;
		assert_image(4);
		writer_close(f.writer);
		f.writer = NULL;
		assert_int_equal(unlink(f.path), 0);
	}
}

static void a_short_direct_write_starts_again_at_its_page(void **state)
{
	open_file(SNAP_NO_IO_URING);
	fake.pwrite = 3 * PAGE_BYTES + 512; /* nothing was written */
	fake.pwrite_after = 4;
	send_frames(FRAMES);
	assert_int_equal(finish(), 0);
	assert_int_equal(files_left(), 1);
}

/* ---- failures of files ---- */

static void a_failing_completion_ends_the_image(void **state)
{
	open_file(0);
	if (!seen.rings)
		skip(); /* forbidden on this machine */
	fake.cqe = CQE_EIO;
	send_frames(FRAMES);
	assert_failed(-EIO, f.path);
	open_file(0);
	f.failures = 0;
	fake.cqe = CQE_ENOSPC;
	send_frames(FRAMES);
	assert_failed(-ENOSPC, "no room left");
}

static void writes_that_never_get_on_fail(void **state)
{
	open_file(0);
	if (!seen.rings)
		skip(); /* forbidden on this machine */
	fake.cqe = CQE_NOTHING_EVER;
	send_frames(2);
	assert_failed(-EIO, f.path);
}

static void a_ring_that_breaks_fails_the_image(void **state)
{
	open_file(0);
	if (!seen.rings)
		skip(); /* forbidden on this machine */
	send_head();
	send_frames_of(0, 4, FRAME_LEN);
	fake.submit = -EFAULT;
	send_frames_of(4, FRAMES, FRAME_LEN);
	assert_failed(-EFAULT, f.path);
}

static void a_kernel_short_of_memory_for_ever_fails_the_image(void **state)
{
	open_file(0);
	if (!seen.rings)
		skip(); /* forbidden on this machine */
	fake.submit = -EAGAIN;
	send_frames(FRAMES);
	assert_failed(-EAGAIN, f.path);
}

static void a_failing_pwrite_ends_the_image(void **state)
{
	static const int errors[] = {-EIO, -ENOSPC, -EDQUOT};

	/* 0 is the head, 1 to 5 are frames, 6 is the index and footer. */
	for (int after = 0; after < 7; after++) {
		open_file(SNAP_NO_IO_URING);
		f.failures = 0;
		fake.pwrite_after = after;
		fake.pwrite = errors[after % 3];
		send_frames(5);
		assert_failed(errors[after % 3], f.path);
	}
}

static void a_failing_fsync_ends_the_image(void **state)
{
	open_file(0);
	fake.fsync = -EIO;
	send_frames(5);
	assert_failed(-EIO, "cannot bring");
}

static void frames_after_a_failure_go_back_at_once(void **state)
{
	open_file(SNAP_NO_IO_URING);
	fake.pwrite = -EIO;
	fake.pwrite_after = 1;
	send_frames(200); /* more than the pool holds */
	assert_failed(-EIO, f.path);
}

static void a_full_file_system_is_told(void **state)
{
	static const unsigned flags[] = {0, SNAP_NO_IO_URING};

	if (mount("none", f.dir, "tmpfs", 0, "size=4m"))
		skip(); /* only root may mount */
	f.mounted = true;
	assert_int_equal(try_open((struct writer_options){.path = f.path,
							  .reserve = RESERVE}),
			 -ENOSPC);
	assert_non_null(strstr(error_text(), "needs 16.0 MiB"));
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		open_file(flags[i] | SNAP_NO_PREALLOCATE);
		f.failures = 0;
		send_frames(FRAMES);
		assert_failed(-ENOSPC, "no room left");
	}
}

static void a_limit_of_file_sizes_is_told_without_a_signal(void **state)
{
	struct rlimit old, small;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){MIB, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(try_open((struct writer_options){.path = f.path,
							  .reserve = RESERVE}),
			 -EFBIG);
	assert_non_null(strstr(error_text(), "RLIMIT_FSIZE"));
	open_file(SNAP_NO_PREALLOCATE);
	send_frames(FRAMES);
	assert_failed(-EFBIG, f.path);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

static void what_is_missing_at_the_start_leaves_nothing(void **state)
{
	const struct writer_options o = {.path = f.path};

	fake.thread_start = -EAGAIN;
	assert_int_equal(try_open(o), -EAGAIN);
	fake.thread_start = 0;
	assert_int_equal(files_left(), 0);
	fake.eventfd = -EMFILE;
	assert_int_equal(try_open(o), -EMFILE);
	assert_non_null(strstr(error_text(), "eventfd"));
	fake.eventfd = 0;
	assert_int_equal(files_left(), 0);
	assert_int_equal(f.failures, 0);
	assert_null(f.writer);
}

/* ---- ending early ---- */

static void closing_without_finishing_leaves_nothing(void **state)
{
	open_file(0);
	send_frames(FRAMES);
	writer_close(f.writer);
	f.writer = NULL;
	assert_int_equal(files_left(), 0);
	assert_int_equal(bufpool_lent(f.pool), 0);
	open_file(0);
	writer_close(f.writer);
	f.writer = NULL;
	writer_close(NULL);
}

static void a_cancelled_image_is_removed(void **state)
{
	static const unsigned flags[] = {0, SNAP_NO_IO_URING};

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		open_file(flags[i]);
		send_frames(4);
		writer_cancel(f.writer);
		send_frames_of(4, 200, FRAME_LEN);
		assert_int_equal(finish(), -ECANCELED);
		assert_int_equal(error_failure(), SNAP_FAILURE_CANCELLED);
		assert_int_equal(f.failures, 0);
		assert_int_equal(bufpool_lent(f.pool), 0);
		writer_close(f.writer);
		f.writer = NULL;
		assert_int_equal(files_left(), 0);
	}
}

static void cancelling_a_finished_image_keeps_it(void **state)
{
	open_file(0);
	send_frames(2);
	assert_int_equal(finish(), 0);
	writer_cancel(f.writer);
	writer_close(f.writer);
	f.writer = NULL;
	assert_int_equal(access(f.path, F_OK), 0);
}

static void bandwidth_is_kept_to(void **state)
{
	uint64_t since = now_ns(), took;

	assert_int_equal(try_open((struct writer_options){
				 .path = f.path,
				 .reserve = RESERVE,
				 .bandwidth = 10 * MIB,
			 }),
			 0);
	send_frames(9); /* the last may start after 8 * 25 ms */
	assert_int_equal(finish(), 0);
	took = now_ns() - since;
	assert_true(took >= 200000000);
	assert_image(9);
}

static void cancelling_ends_the_wait_for_bandwidth(void **state)
{
	assert_int_equal(try_open((struct writer_options){
				 .path = f.path,
				 .reserve = RESERVE,
				 .bandwidth = 1000,
			 }),
			 0);
	send_frames(2);
	usleep(20000);
	writer_cancel(f.writer);
	/* At 1000 bytes a second the second frame is due in minutes, past this
	 * test's time limit. */
	assert_int_equal(finish(), -ECANCELED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_writer(a_file_holds_what_was_written),
		with_writer(an_image_without_frames_is_written),
		with_writer(io_uring_is_used_unless_it_is_not_wanted),
		with_writer(a_frame_takes_three_system_calls_at_most),
		with_writer(pwrite_does_where_io_uring_is_forbidden),
		with_writer(pwrite_does_where_the_ring_does_not_work),
		with_writer(memory_that_cannot_be_registered_is_written),
		with_writer(incomplete_completions_are_submitted_again),
		with_writer(a_kernel_short_of_memory_is_asked_again),
		with_writer(short_writes_are_completed),
		with_writer(a_short_direct_write_starts_again_at_its_page),
		with_writer(a_failing_completion_ends_the_image),
		with_writer(writes_that_never_get_on_fail),
		with_writer(a_ring_that_breaks_fails_the_image),
		with_writer(a_kernel_short_of_memory_for_ever_fails_the_image),
		with_writer(a_failing_pwrite_ends_the_image),
		with_writer(a_failing_fsync_ends_the_image),
		with_writer(frames_after_a_failure_go_back_at_once),
		with_writer(a_full_file_system_is_told),
		with_writer(a_limit_of_file_sizes_is_told_without_a_signal),
		with_writer(what_is_missing_at_the_start_leaves_nothing),
		with_writer(closing_without_finishing_leaves_nothing),
		with_writer(a_cancelled_image_is_removed),
		with_writer(cancelling_a_finished_image_keeps_it),
		with_writer(bandwidth_is_kept_to),
		with_writer(cancelling_ends_the_wait_for_bandwidth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

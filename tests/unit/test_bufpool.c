// SPDX-License-Identifier: MIT
/* The buffer pool: who gets a buffer, who waits, and how waiting ends. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bufpool.h"
#include "error.h"
#include "sys.h"

/* After ours: it makes a macro of fail, the member of struct failure_sink. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define POOL_BYTES (17 * MIB) /* 8 buffers */
#define ORDINARY 6u	      /* with 2 outputs; the reserve is then 1 */
#define PAUSE_US 20000

static int fail_mmap_at; /* 1: the next one */
static int madvise_result_for_populate;
static int eventfd_result;

int __real_sys_mmap(void **out, size_t len, int prot, int flags, int fd,
		    uint64_t offset);
int __wrap_sys_mmap(void **out, size_t len, int prot, int flags, int fd,
		    uint64_t offset);
int __real_sys_madvise(void *addr, size_t len, int advice);
int __wrap_sys_madvise(void *addr, size_t len, int advice);
int __real_sys_eventfd(unsigned initial);
int __wrap_sys_eventfd(unsigned initial);

int __wrap_sys_mmap(void **out, size_t len, int prot, int flags, int fd,
		    uint64_t offset)
{
	if (fail_mmap_at && --fail_mmap_at == 0)
		return -ENOMEM;
	return __real_sys_mmap(out, len, prot, flags, fd, offset);
}

int __wrap_sys_madvise(void *addr, size_t len, int advice)
{
	if (advice == MADV_POPULATE_WRITE && madvise_result_for_populate)
		return madvise_result_for_populate;
	return __real_sys_madvise(addr, len, advice);
}

int __wrap_sys_eventfd(unsigned initial)
{
	if (eventfd_result)
		return eventfd_result;
	return __real_sys_eventfd(initial);
}

static int setup(void **state)
{
	struct bufpool *p;

	fail_mmap_at = 0;
	madvise_result_for_populate = 0;
	eventfd_result = 0;
	if (bufpool_create(&p, POOL_BYTES, 2))
		return -1;
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	bufpool_destroy(*state);
	return 0;
}

static bool readable(int fd)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	return sys_poll(&pfd, 1, 0) == 1;
}

/* What the fault thread does when its poll() returns. */
static void clear(int fd)
{
	uint64_t n;

	assert_int_equal(sys_read(fd, &n, sizeof(n)), sizeof(n));
}

static size_t resident_bytes(void *addr, size_t len)
{
	size_t pages = len / PAGE_BYTES, n = 0;
	unsigned char *vec = malloc(pages);

	assert_non_null(vec);
	assert_int_equal(mincore(addr, len, vec), 0);
	for (size_t i = 0; i < pages; i++)
		n += vec[i] & 1;
	free(vec);
	return n * PAGE_BYTES;
}

static void all_memory_fits_the_limit_and_is_touched(void **state)
{
	struct bufpool *p = *state;
	void *addr;
	size_t len;

	assert_int_equal(bufpool_count(p), ORDINARY);
	bufpool_memory(p, &addr, &len);
	assert_true(len <= POOL_BYTES);
	assert_int_equal(len, 8 * BUF_ROOM);
	assert_int_equal(resident_bytes(addr, len), len);
}

static void payloads_are_aligned_and_apart(void **state)
{
	struct bufpool *p = *state;
	struct buf *held[ORDINARY];
	void *addr;
	size_t len;

	bufpool_memory(p, &addr, &len);
	for (unsigned i = 0; i < ORDINARY; i++) {
		held[i] = bufpool_try_get_fault(p);
		assert_non_null(held[i]);
		assert_true(is_aligned((uintptr_t)held[i]->payload, 4096));
		assert_true(held[i]->payload - BUF_HEADER_ROOM >=
			    (uint8_t *)addr);
		assert_true(held[i]->payload + BUF_PAYLOAD_ROOM <=
			    (uint8_t *)addr + len);
		memset(held[i]->payload - BUF_HEADER_ROOM, (int)i + 1,
		       BUF_ROOM);
	}
	for (unsigned i = 0; i < ORDINARY; i++) {
		const uint8_t *b = held[i]->payload - BUF_HEADER_ROOM;

		assert_int_equal(b[0], i + 1);
		assert_int_equal(b[BUF_ROOM - 1], i + 1);
		bufpool_put(p, held[i]);
	}
}

static void the_sweep_leaves_the_reserve_to_faults(void **state)
{
	struct bufpool *p = *state;
	struct buf *held[ORDINARY];
	unsigned n = 0;

	while ((held[n] = bufpool_try_get_sweep(p)))
		n++;
	assert_int_equal(n, ORDINARY - 1);
	held[n] = bufpool_try_get_fault(p);
	assert_non_null(held[n]);
	assert_null(bufpool_try_get_fault(p));
	assert_int_equal(bufpool_lent(p), ORDINARY);

	for (unsigned i = 0; i < ORDINARY; i++)
		bufpool_put(p, held[i]);
	assert_int_equal(bufpool_lent(p), 0);
}

static void a_returned_buffer_is_empty(void **state)
{
	struct bufpool *p = *state;
	struct buf *b = bufpool_try_get_fault(p);

	b->payload_len = 4096;
	b->extent_count = 3;
	b->frame = b->payload;
	b->frame_len = 1;
	b->entry.pages_zero = 7;
	bufpool_put(p, b);
	assert_ptr_equal(bufpool_try_get_fault(p), b);
	assert_int_equal(b->payload_len, 0);
	assert_int_equal(b->extent_count, 0);
	assert_null(b->frame);
	assert_int_equal(b->frame_len, 0);
	assert_int_equal(b->entry.pages_zero, 0);
	bufpool_put(p, b);
}

static void the_sweep_gets_nothing_while_a_fault_waits(void **state)
{
	struct bufpool *p = *state;
	struct bufpool_waits w;
	struct buf *b;

	bufpool_fault_waiting(p, 2);
	assert_null(bufpool_try_get_sweep(p));
	usleep(2000);
	bufpool_fault_waiting(p, -1);
	assert_null(bufpool_try_get_sweep(p));
	bufpool_get_waits(p, &w);
	assert_true(w.fault_ns >= 2000000);
	bufpool_fault_waiting(p, -1);
	b = bufpool_try_get_sweep(p);
	assert_non_null(b);
	bufpool_put(p, b);

	bufpool_get_waits(p, &w);
	assert_int_equal(w.faults, 2);
	assert_true(w.fault_ns >= 2000000);
	assert_int_equal(w.sweep_ns, 0);
}

static void a_buffer_that_comes_back_tells_the_fault_thread(void **state)
{
	struct bufpool *p = *state;
	struct buf *held[ORDINARY];

	for (unsigned i = 0; i < ORDINARY; i++)
		held[i] = bufpool_try_get_fault(p);
	assert_false(readable(bufpool_fd(p)));

	/* It comes back between the attempt and bufpool_fault_waiting(). */
	assert_null(bufpool_try_get_fault(p));
	bufpool_put(p, held[0]);
	assert_true(readable(bufpool_fd(p)));
	clear(bufpool_fd(p));
	assert_false(readable(bufpool_fd(p)));

	held[0] = bufpool_try_get_fault(p);
	assert_non_null(held[0]);
	for (unsigned i = 0; i < ORDINARY; i++)
		bufpool_put(p, held[i]);
	assert_false(readable(bufpool_fd(p)));
}

struct getter {
	struct bufpool *p;
	struct buf *(*get)(struct bufpool *p);
	struct buf *got;
	atomic_int tid; /* set right before the call */
	atomic_bool done;
	pthread_t thread;
};

static void *getter_main(void *arg)
{
	struct getter *g = arg;

	atomic_store(&g->tid, (int)syscall(SYS_gettid));
	g->got = g->get(g->p);
	atomic_store(&g->done, true);
	return NULL;
}

/* Whether the thread sleeps, by its state in /proc. */
static bool asleep(int tid)
{
	char path[64], line[512] = "";
	const char *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	if (!f)
		return false;
	state = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return state && state[1] == ' ' && state[2] == 'S';
}

/* Start the thread and see it sleep in the call, however late it comes to it:
 * a fixed pause would be too short on a busy machine. */
static void getter_start(struct getter *g, struct bufpool *p,
			 struct buf *(*get)(struct bufpool *p))
{
	*g = (struct getter){.p = p, .get = get};
	assert_int_equal(pthread_create(&g->thread, NULL, getter_main, g), 0);
	while (!atomic_load(&g->done) &&
	       !(atomic_load(&g->tid) && asleep(atomic_load(&g->tid))))
		usleep(100);
	assert_false(atomic_load(&g->done));
}

static struct buf *getter_join(struct getter *g)
{
	assert_int_equal(pthread_join(g->thread, NULL), 0);
	return g->got;
}

static void a_waiting_sweep_goes_on_when_the_reserve_is_whole(void **state)
{
	struct bufpool *p = *state;
	struct buf *held[ORDINARY], *b;
	struct bufpool_waits w;
	struct getter g;
	uint64_t since, waited;

	for (unsigned i = 0; i < ORDINARY; i++)
		held[i] = bufpool_try_get_fault(p);
	getter_start(&g, p, bufpool_get_sweep);
	since = now_ns();	 /* it waits already */
	bufpool_put(p, held[0]); /* the reserve: not for the sweep */
	usleep(PAUSE_US);
	assert_false(atomic_load(&g.done));
	waited = now_ns() - since;
	bufpool_put(p, held[1]);
	b = getter_join(&g);
	assert_non_null(b);
	bufpool_get_waits(p, &w);
	assert_true(w.sweep_ns >= waited);
	assert_int_equal(w.faults, 0);

	bufpool_put(p, b);
	for (unsigned i = 2; i < ORDINARY; i++)
		bufpool_put(p, held[i]);
}

static void a_waiting_sweep_goes_on_when_the_last_fault_is_served(void **state)
{
	struct bufpool *p = *state;
	struct getter g;

	bufpool_fault_waiting(p, 1);
	getter_start(&g, p, bufpool_get_sweep);
	bufpool_fault_waiting(p, -1);
	assert_non_null(getter_join(&g));
	bufpool_put(p, g.got);
}

static void outputs_are_for_compression_alone(void **state)
{
	struct bufpool *p = *state;
	struct buf *a = bufpool_get_output(p), *b = bufpool_get_output(p);
	struct getter g;

	assert_true(a->output && b->output && a != b);
	getter_start(&g, p, bufpool_get_output);
	bufpool_put(p, a);
	assert_ptr_equal(getter_join(&g), a);
	assert_false(readable(bufpool_fd(p)));
	bufpool_put(p, a);
	bufpool_put(p, b);
}

static void close_wakes_everybody_with_nothing(void **state)
{
	struct bufpool *p = *state;
	struct getter sweep, output;
	struct buf *held[2];

	held[0] = bufpool_get_output(p);
	held[1] = bufpool_get_output(p);
	bufpool_fault_waiting(p, 1);
	getter_start(&sweep, p, bufpool_get_sweep);
	getter_start(&output, p, bufpool_get_output);
	bufpool_close(p);
	assert_null(getter_join(&sweep));
	assert_null(getter_join(&output));
	assert_true(readable(bufpool_fd(p)));
	bufpool_fault_waiting(p, -1);
	assert_null(bufpool_get_sweep(p));
	assert_null(bufpool_try_get_sweep(p));
	assert_null(bufpool_try_get_fault(p));
	bufpool_put(p, held[0]);
	bufpool_put(p, held[1]);
	assert_null(bufpool_get_output(p));
}

struct churn {
	struct bufpool *p;
	atomic_uint served;
	atomic_bool stop;
};

static void *churn_sweep(void *arg)
{
	struct churn *c = arg;
	struct buf *b;

	while ((b = bufpool_get_sweep(c->p))) {
		memset(b->payload, 1, 64);
		bufpool_put(c->p, b);
	}
	return NULL;
}

/* A fault thread that takes all there is, as in a burst of faults. */
static void *churn_fault(void *arg)
{
	struct churn *c = arg;
	struct buf *held[ORDINARY];

	for (int round = 0; round < 200; round++) {
		unsigned n = 0;

		bufpool_fault_waiting(c->p, 1);
		while (n < ORDINARY) {
			struct pollfd pfd = {bufpool_fd(c->p), POLLIN, 0};
			uint64_t v;

			held[n] = bufpool_try_get_fault(c->p);
			if (held[n]) {
				memset(held[n++]->payload, 2, 64);
				continue;
			}
			if (sys_poll(&pfd, 1, 5000) != 1)
				return NULL; /* lost wake-up */
			(void)!sys_read(pfd.fd, &v, sizeof(v));
		}
		bufpool_fault_waiting(c->p, -1);
		while (n)
			bufpool_put(c->p, held[--n]);
		atomic_fetch_add(&c->served, 1);
	}
	return NULL;
}

static void no_wake_up_is_lost_between_sweeps_and_faults(void **state)
{
	struct churn c = {.p = *state};
	pthread_t sweeps[2], fault;

	for (int i = 0; i < 2; i++)
		assert_int_equal(
			pthread_create(&sweeps[i], NULL, churn_sweep, &c), 0);
	assert_int_equal(pthread_create(&fault, NULL, churn_fault, &c), 0);
	pthread_join(fault, NULL);
	bufpool_close(c.p);
	for (int i = 0; i < 2; i++)
		pthread_join(sweeps[i], NULL);
	assert_int_equal(atomic_load(&c.served), 200);
	assert_int_equal(bufpool_lent(c.p), 0);
}

static void too_small_a_pool_is_refused(void **state)
{
	struct bufpool *p = NULL;

	assert_int_equal(bufpool_create(&p, 4 * MIB, 0), -EINVAL);
	assert_non_null(strstr(error_text(), "too small"));
	assert_int_equal(error_failure(), SNAP_FAILURE_USAGE);
	assert_null(p);
}

static void many_outputs_leave_half_of_the_pool(void **state)
{
	struct bufpool *p;

	assert_int_equal(bufpool_create(&p, 16 * MIB, 10), 0);
	assert_int_equal(bufpool_count(p), 4);
	bufpool_destroy(p);
}

static void want_of_memory_is_reported(void **state)
{
	struct bufpool *p = NULL;

	for (int i = 1; i <= 2; i++) {
		fail_mmap_at = i;
		assert_int_equal(bufpool_create(&p, POOL_BYTES, 0), -ENOMEM);
		assert_non_null(strstr(error_text(), "max_buffer"));
	}
	madvise_result_for_populate = -ENOMEM;
	assert_int_equal(bufpool_create(&p, POOL_BYTES, 0), -ENOMEM);
	madvise_result_for_populate = 0;
	eventfd_result = -EMFILE;
	assert_int_equal(bufpool_create(&p, POOL_BYTES, 0), -EMFILE);
	eventfd_result = 0;
	assert_null(p);
}

static void memory_is_touched_on_kernels_without_populate(void **state)
{
	struct bufpool *p;
	void *addr;
	size_t len;

	madvise_result_for_populate = -EINVAL;
	assert_int_equal(bufpool_create(&p, POOL_BYTES, 0), 0);
	madvise_result_for_populate = 0;
	bufpool_memory(p, &addr, &len);
	assert_int_equal(resident_bytes(addr, len), len);
	bufpool_destroy(p);
}

#define with_pool(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_pool(all_memory_fits_the_limit_and_is_touched),
		with_pool(payloads_are_aligned_and_apart),
		with_pool(the_sweep_leaves_the_reserve_to_faults),
		with_pool(a_returned_buffer_is_empty),
		with_pool(the_sweep_gets_nothing_while_a_fault_waits),
		with_pool(a_buffer_that_comes_back_tells_the_fault_thread),
		with_pool(a_waiting_sweep_goes_on_when_the_reserve_is_whole),
		with_pool(
			a_waiting_sweep_goes_on_when_the_last_fault_is_served),
		with_pool(outputs_are_for_compression_alone),
		with_pool(close_wakes_everybody_with_nothing),
		with_pool(no_wake_up_is_lost_between_sweeps_and_faults),
		cmocka_unit_test(too_small_a_pool_is_refused),
		cmocka_unit_test(many_outputs_leave_half_of_the_pool),
		cmocka_unit_test(want_of_memory_is_reported),
		cmocka_unit_test(memory_is_touched_on_kernels_without_populate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

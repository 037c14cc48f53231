// SPDX-License-Identifier: MIT
/* The library's threads while a snapshot runs: priority and signals. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "libsnap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RAM_BYTES ((size_t)64 << 20)

/* One of our threads, by its name in /proc/self/task/TID. */
struct seen {
	char name[32];
	int nice;
	int policy;
	uint64_t blocked; /* signals */
};

static bool read_thread(const char *tid, struct seen *s)
{
	char path[300], line[512];
	FILE *f;

	memset(s, 0, sizeof(*s));
	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", tid);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (fgets(line, sizeof(line), f) && strrchr(line, ')'))
		sscanf(strrchr(line, ')') + 2,
		       "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u "
		       "%*d %*d %*d %d %*d %*d %*u %*u %*d %*u %*u %*u %*u "
		       "%*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %*d %*u %d",
		       &s->nice, &s->policy);
	sscanf(line, "%*d (%31[^)])", s->name);
	fclose(f);
	snprintf(path, sizeof(path), "/proc/self/task/%s/status", tid);
	f = fopen(path, "r");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		sscanf(line, "SigBlk: %" SCNx64, &s->blocked);
	fclose(f);
	return strncmp(s->name, "snap-", 5) == 0;
}

static unsigned list_threads(struct seen *out, unsigned max)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	unsigned n = 0;

	assert_non_null(d);
	while (n < max && (e = readdir(d)))
		if (e->d_name[0] != '.' && read_thread(e->d_name, &out[n]))
			n++;
	closedir(d);
	return n;
}

/* A snapshot held up by its bandwidth, so that all threads are at work. */
static struct snap *start(void)
{
	const struct snap_options o = {
		.size = sizeof(o),
		.bandwidth = 1 << 20,
		.max_buffer = (size_t)16 << 20,
	};
	char *ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct snap_region r = {
		.size = sizeof(r), .addr = ram, .length = RAM_BYTES};
	struct snap *s;

	assert_ptr_not_equal(ram, MAP_FAILED);
	memset(ram, 1, RAM_BYTES);
	assert_int_equal(snap_create(&s, &o), 0);
	assert_int_equal(snap_add_region(s, &r), 0);
	if (snap_prepare(s) == -EPERM) {
		print_message("%s\n", snap_error_message());
		exit(77);
	}
	assert_int_equal(snap_begin(s), 0);
	assert_int_equal(snap_wait(s, 100), -EINPROGRESS);
	return s;
}

static void threads_that_change_mappings_keep_their_priority(void **state)
{
	struct seen seen[32];
	struct snap *s = start();
	unsigned n = list_threads(seen, 32), sweeps = 0, encoders = 0;

	(void)state;
	/* The kernel's locks on the address space are held over each protect,
	 * unprotect and unregister. A thread that the scheduler leaves waiting
	 * with one in its hands stops the whole guest. */
	for (unsigned i = 0; i < n; i++) {
		if (!strncmp(seen[i].name, "snap-sweep", 10) ||
		    !strcmp(seen[i].name, "snap-fault")) {
			assert_int_equal(seen[i].nice, 0);
			sweeps++;
		}
		if (!strncmp(seen[i].name, "snap-encode", 11)) {
			assert_int_equal(seen[i].nice, 19);
			encoders++;
		}
	}
	assert_true(sweeps >= 2);
	assert_true(encoders > 0);
	snap_destroy(s);
}

static void faults_are_answered_in_real_time_where_that_is_allowed(void **state)
{
	const struct sched_param lowest = {.sched_priority = 1};
	struct seen seen[32];
	struct snap *s;
	unsigned n, found = 0;

	(void)state;
	if (sched_setscheduler(0, SCHED_FIFO, &lowest)) {
		print_message("real-time priority is not allowed here\n");
		skip();
	}
	assert_int_equal(
		sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0}),
		0);
	s = start();
	n = list_threads(seen, 32);
	for (unsigned i = 0; i < n; i++) {
		bool fault = !strcmp(seen[i].name, "snap-fault");

		assert_int_equal(seen[i].policy,
				 fault ? SCHED_FIFO : SCHED_OTHER);
		found += fault;
	}
	assert_int_equal(found, 1);
	snap_destroy(s);
}

static void no_signal_is_taken_by_a_thread_of_ours(void **state)
{
	/* All but SIGKILL and SIGSTOP, and the two the C library keeps. */
	const uint64_t must =
		~(UINT64_C(1) << 8 | UINT64_C(1) << 18 | UINT64_C(3) << 31);
	struct seen seen[32];
	struct snap *s = start();
	unsigned n = list_threads(seen, 32);

	(void)state;
	assert_true(n >= 3);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(seen[i].blocked & must, must);
	snap_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			threads_that_change_mappings_keep_their_priority),
		cmocka_unit_test(
			faults_are_answered_in_real_time_where_that_is_allowed),
		cmocka_unit_test(no_signal_is_taken_by_a_thread_of_ours),
	};

	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}

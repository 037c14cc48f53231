// SPDX-License-Identifier: MIT
/* snapd --pid: one snapshot of one process. */
#include "oneshot.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "failure.h"
#include "progress.h"
#include "qmp.h"
#include "report.h"

struct oneshot {
	const struct options *o;
	struct snap *snap;
	struct qmp *qmp;
	struct failure failure;
	uint64_t pause_us; /* with QMP, the library's own is a part of it */
	int signals;
};

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- what is saved ---- */

static int create(struct oneshot *s)
{
	const struct options *o = s->o;
	struct snap_options opts = {
		.size = sizeof(opts),
		.output = o->output,
		.compress = o->compress,
		.compress_level = o->level,
		.workers = o->workers,
		.max_buffer = o->max_buffer,
		.bandwidth = o->bandwidth,
		.pid = o->pid,
		.fault_limit_ms = o->fault_limit_ms,
	};

	if (!strcmp(o->output, "-")) {
		opts.output = NULL;
		opts.output_fd = STDOUT_FILENO;
		if (isatty(STDOUT_FILENO))
			return failure_set(&s->failure, EXIT_USAGE,
					   "--output -: an image is not for a "
					   "terminal");
	}
	return snap_create(&s->snap, &opts) ? failure_library(&s->failure) : 0;
}

static int add_ranges(struct oneshot *s)
{
	size_t i;

	for (i = 0; i < s->o->range_count; i++) {
		const struct range *r = &s->o->ranges[i];
		const struct snap_region region = {
			.size = sizeof(region),
			.addr = (void *)(uintptr_t)r->start,
			.length = r->end - r->start,
		};

		if (snap_add_region(s->snap, &region))
			return failure_library(&s->failure);
	}
	return 0;
}

static void tell_picks(struct oneshot *s)
{
	struct snap_region_info info = {.size = sizeof(info)};
	size_t i;

	for (i = 0; !snap_get_region(s->snap, i, &info); i++)
		fprintf(stderr,
			"snapd: %s: 0x%" PRIx64 "-0x%" PRIx64 ", %" PRIu64
			" KiB: %s\n",
			info.name, info.start, info.start + info.length,
			info.length / 1024, info.why);
}

/* Main memory where QEMU says it is; 1 when it does not. */
static int add_main_memory(struct oneshot *s)
{
	struct snap_region region = {.size = sizeof(region), .name = "ram"};
	uint64_t start, length;

	if (qmp_guest_ram(s->qmp, &start, &length, &s->failure))
		return s->failure.code ? -1 : 1;
	region.addr = (void *)(uintptr_t)start;
	region.length = length;
	if (snap_add_region(s->snap, &region))
		return failure_library(&s->failure);
	if (s->o->progress != PROGRESS_NONE)
		fprintf(stderr,
			"snapd: ram: 0x%" PRIx64 "-0x%" PRIx64 ", %" PRIu64
			" KiB: main memory, as QEMU says\n",
			start, start + length, length / 1024);
	return 0;
}

static int choose(struct oneshot *s)
{
	int err = 1;

	if (s->o->range_count)
		return add_ranges(s);
	if (s->qmp)
		err = add_main_memory(s);
	if (err <= 0)
		return err;
	if (snap_add_ram(s->snap))
		return failure_library(&s->failure);
	if (s->o->progress != PROGRESS_NONE)
		tell_picks(s);
	return 0;
}

/* ---- the pause ---- */

static int add_devices(struct oneshot *s)
{
	void *data;
	size_t len;
	int err;

	if (qmp_device_state(s->qmp, &data, &len, &s->failure))
		return -1;
	err = snap_add_device_state(s->snap, "qemu", data, len);
	free(data);
	return err ? failure_library(&s->failure) : 0;
}

static int begin(struct oneshot *s)
{
	uint64_t start = now_us();
	int err = 0;

	if (s->qmp)
		err = qmp_stop(s->qmp, &s->failure) || add_devices(s) ? -1 : 0;
	if (!err && snap_begin(s->snap))
		err = failure_library(&s->failure);
	if (!s->qmp)
		return err;
	/* Whatever happened.  A guest that does not go on is worse than an
	 * image that is not made. */
	if (qmp_cont(s->qmp, &s->failure))
		err = -1;
	s->pause_us = now_us() - start;
	return err;
}

/* ---- the rest ---- */

static void take_signal(struct oneshot *s)
{
	struct signalfd_siginfo info;

	if (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		snap_cancel(s->snap);
}

static int follow(struct oneshot *s)
{
	struct pollfd fds[] = {
		{.fd = snap_fd(s->snap), .events = POLLIN},
		{.fd = s->signals, .events = POLLIN},
	};
	struct progress p;
	int err;

	progress_start(&p, s->o->progress);
	while ((err = snap_process(s->snap)) == -EINPROGRESS) {
		if (poll(fds, 2, progress_interval(&p)) < 0 && errno != EINTR)
			snap_cancel(s->snap);
		if (fds[1].revents)
			take_signal(s);
		progress_tick(&p, s->snap);
	}
	progress_end(&p);
	return err ? failure_library(&s->failure) : 0;
}

static int block_signals(struct oneshot *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals >= 0 ? 0
			       : failure_set(&s->failure, EXIT_FAILED,
					     "cannot watch for signals: %s",
					     strerror(errno));
}

static int run(struct oneshot *s)
{
	if (block_signals(s) || create(s))
		return -1;
	if (s->o->qmp && qmp_open(&s->qmp, s->o->qmp, &s->failure))
		return -1;
	if (choose(s))
		return -1;
	if (snap_prepare(s->snap))
		return failure_library(&s->failure);
	if (begin(s)) {
		snap_cancel(s->snap);
		return -1;
	}
	return follow(s);
}

static void print_report(struct oneshot *s)
{
	const struct report r = {
		.snap = s->snap,
		.failure = &s->failure,
		.pause_us = s->pause_us,
	};
	FILE *to = strcmp(s->o->output, "-") ? stdout : stderr;

	if (report_print(&r, to))
		failure_set(&s->failure, EXIT_OUTPUT,
			    "cannot write the report");
}

enum exit_code oneshot_run(const struct options *o)
{
	struct oneshot s = {.o = o, .signals = -1};

	run(&s);
	if (s.failure.code)
		fail(s.failure.code, "%s", s.failure.text);
	if (o->json)
		print_report(&s);
	snap_destroy(s.snap);
	qmp_close(s.qmp);
	if (s.signals >= 0)
		close(s.signals);
	return s.failure.code;
}

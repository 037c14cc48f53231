// SPDX-License-Identifier: MIT
/* snapd --pid: one snapshot of one process. */
#include "oneshot.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "job.h"
#include "progress.h"
#include "report.h"

struct oneshot {
	struct job job;
	int signals;
};

static void take_signal(struct oneshot *s)
{
	struct signalfd_siginfo info;

	if (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		snap_cancel(s->job.snap);
}

static int follow(struct oneshot *s)
{
	struct pollfd fds[] = {
		{.fd = snap_fd(s->job.snap), .events = POLLIN},
		{.fd = s->signals, .events = POLLIN},
	};
	struct progress p;
	int err;

	progress_start(&p, s->job.options->progress);
	while ((err = snap_process(s->job.snap)) == -EINPROGRESS) {
		if (poll(fds, 2, progress_interval(&p)) < 0 && errno != EINTR)
			snap_cancel(s->job.snap);
		if (fds[1].revents)
			take_signal(s);
		progress_tick(&p, s->job.snap);
	}
	progress_end(&p);
	return err ? failure_library(&s->job.failure) : 0;
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
			       : failure_set(&s->job.failure, EXIT_FAILED,
					     "cannot watch for signals: %s",
					     strerror(errno));
}

static int run(struct oneshot *s)
{
	if (block_signals(s) || job_prepare(&s->job))
		return -1;
	if (job_begin(&s->job)) {
		snap_cancel(s->job.snap);
		return -1;
	}
	return follow(s);
}

static void print_report(struct oneshot *s)
{
	FILE *to = strcmp(s->job.options->output, "-") ? stdout : stderr;
	json_t *o = report_json(&s->job);

	if (!o || json_dumpf(o, to, JSON_COMPACT) || fputc('\n', to) == EOF ||
	    fflush(to))
		failure_set(&s->job.failure, EXIT_OUTPUT,
			    "cannot write the report");
	json_decref(o);
}

enum exit_code oneshot_run(const struct options *o)
{
	struct oneshot s = {.job.options = o, .signals = -1};

	run(&s);
	if (s.job.failure.code)
		fail(s.job.failure.code, "%s", s.job.failure.text);
	if (o->json)
		print_report(&s);
	job_close(&s.job);
	if (s.signals >= 0)
		close(s.signals);
	return s.job.failure.code;
}

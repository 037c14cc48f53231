// SPDX-License-Identifier: MIT
/* Gives the snapshot up before the guest waits too long. */
#include "watchdog.h"

#include <errno.h>
#include <stdlib.h>

#include "sys.h"
#include "thread.h"

struct watchdog {
	struct guest *g;
	uint64_t limit_ns;
	pthread_t thread;
	int stop_fd;
};

static bool waits_too_long(const struct watchdog *w)
{
	uint64_t since = atomic_load_explicit(&w->g->fault_since_ns,
					      memory_order_relaxed);
	uint64_t now = now_ns();

	return since && now > since && now - since > w->limit_ns;
}

static void *run(void *arg)
{
	struct watchdog *w = arg;
	struct pollfd p = {.fd = w->stop_fd, .events = POLLIN};
	int interval_ms = (int)(w->limit_ns / 4000000);

	while (sys_poll(&p, 1, interval_ms ? interval_ms : 1) <= 0) {
		if (guest_stopping(w->g) || !waits_too_long(w))
			continue;
		failure_report(
			&w->g->sink,
			error_set(-ETIMEDOUT, SNAP_FAILURE_INTERNAL,
				  "a write of the guest waited for more than "
				  "%u ms and its memory was released: the "
				  "output is too slow for what it writes; "
				  "raise max_buffer, or compress",
				  (unsigned)(w->limit_ns / 1000000)));
	}
	return NULL;
}

int watchdog_start(struct watchdog **out, struct guest *g, unsigned limit_ms)
{
	struct watchdog *w;
	int err;

	*out = NULL;
	if (!limit_ms)
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return error_nomem("the watchdog");
	w->g = g;
	w->limit_ns = (uint64_t)limit_ms * 1000000;
	w->stop_fd = sys_eventfd(0);
	err = w->stop_fd < 0
		      ? error_sys(w->stop_fd, SNAP_FAILURE_INTERNAL, "eventfd")
		      : thread_start(&w->thread, "snap-watchdog", run, w);
	if (err) {
		if (w->stop_fd >= 0)
			sys_close(w->stop_fd);
		free(w);
		return err;
	}
	*out = w;
	return 0;
}

void watchdog_stop(struct watchdog *w)
{
	uint64_t one = 1;

	if (!w)
		return;
	sys_write(w->stop_fd, &one, sizeof(one));
	pthread_join(w->thread, NULL);
	sys_close(w->stop_fd);
	free(w);
}

// SPDX-License-Identifier: MIT
/* This library as it is shipped, with its defaults. */
#include "mode.h"

#include "bench.h"
#include "libsnap.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* Until nothing is protected any more, or all is over. */
static void wait_released(struct snap *s)
{
	struct pollfd p = {.fd = snap_fd(s), .events = POLLIN};

	while (snap_state(s) < SNAP_STATE_WRITING) {
		poll(&p, 1, 1000);
		(void)snap_process(s);
	}
}

static struct snap *prepare(struct shot *s, const char *path, int fd)
{
	struct snap_options opts = {.size = sizeof(opts),
				    .output = s->dir ? path : NULL,
				    .output_fd = s->dir ? 0 : fd,
				    .flags = SNAP_OVERWRITE};
	struct snap_region region = {.size = sizeof(region),
				     .addr = s->g->ram.addr,
				     .length = s->g->ram.len};
	struct snap *snap;

	if (snap_create(&snap, &opts) || snap_add_region(snap, &region) ||
	    snap_prepare(snap))
		die("%s", snap_error_message());
	return snap;
}

static void snap_take(struct shot *s)
{
	struct snap_stats st = {.size = sizeof(st)};
	char path[512];
	int fd = sink_open(s, path);
	struct snap *snap = prepare(s, path, fd);

	shot_pause(s);
	if (snap_begin(snap))
		die("%s", snap_error_message());
	shot_resume(s);
	wait_released(snap);
	shot_end(s);
	if (snap_wait(snap, -1))
		die("%s", snap_error_message());
	s->done = ticks();
	snap_get_stats(snap, &st);
	s->faults = st.faults;
	s->has_faults = true;
	snap_destroy(snap);
	close(fd);
	if (path[0])
		unlink(path);
}

const struct mode mode_snap = {.name = "snap", .take = snap_take};

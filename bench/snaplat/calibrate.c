// SPDX-License-Identifier: MIT
/*
 * What saving costs on this machine, measured on memory and a child of ours.
 *
 * The child is a process of its own as the watched one is, so that stopping
 * it and reading its memory cost the same.
 */
#include "calibrate.h"

#include "bench.h"
#include "libsnap.h"
#include "ram.h"
#include "wp.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM (64 * MIB)

/* Filled before the fork; the child makes it its own by writing. */
static bool make(struct ram *ram, enum ram_kind kind)
{
	if (ram_make(ram, kind, ROOM))
		return false;
	memset(ram->addr, 1, ROOM);
	return true;
}

/* Microseconds for the whole of it, the better of two. */
static double protect_us(const struct ram *ram)
{
	double best = 0;

	for (unsigned i = 0; i < 2; i++) {
		int fd = wp_open(ram->addr, ram->len);
		double start = now_s(), us;

		wp_set(fd, (uintptr_t)ram->addr, ram->len, true);
		us = (now_s() - start) * 1e6;
		wp_close(fd, ram->addr, ram->len);
		best = i == 0 || us < best ? us : best;
	}
	return best;
}

static pid_t start_child(const struct ram *ram, int ready[2])
{
	char c = 0;
	pid_t child;

	if (pipe(ready))
		die("no pipe");
	child = fork();
	if (child < 0)
		die("cannot fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(ram->addr, 2, ram->len);
		if (write(ready[1], &c, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (read(ready[0], &c, 1) != 1)
		die("the child failed");
	return child;
}

/* Save @len bytes of it.  Seconds; @begin_us is the part with the pause. */
static double save(pid_t child, const struct ram *ram, size_t len,
		   double *begin_us)
{
	struct snap_options opts = {.size = sizeof(opts), .pid = child};
	struct snap_region region = {
		.size = sizeof(region), .addr = ram->addr, .length = len};
	struct snap *s;
	double start, seconds = -1;

	if (snap_create(&s, &opts))
		return -1;
	if (!snap_add_region(s, &region) && !snap_prepare(s)) {
		start = now_s();
		if (!snap_begin(s)) {
			*begin_us = (now_s() - start) * 1e6;
			if (!snap_wait(s, -1))
				seconds = now_s() - start;
		}
	}
	snap_destroy(s);
	return seconds;
}

static bool save_child(const struct ram *ram, double *mib_s, double *begin_us)
{
	int ready[2];
	pid_t child = start_child(ram, ready);
	double ignored, seconds = save(child, ram, ram->len, &ignored);
	double small = save(child, ram, BLOCK, begin_us);

	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	if (seconds < 0 || small < 0)
		return false;
	*mib_s = (double)(ram->len / MIB) / seconds;
	return true;
}

bool calibrate(struct costs *out, char *why, unsigned room)
{
	struct ram page, huge;
	bool ok;

	*out = (struct costs){0};
	if (!make(&page, RAM_ANON))
		die("out of memory");
	ok = save_child(&page, &out->page_mib_s, &out->begin_us);
	if (!ok)
		snprintf(why, room, "%s", snap_error_message());
	else
		out->protect_page_us = protect_us(&page) / (ROOM / PAGE);
	ram_free(&page);
	if (!ok || !make(&huge, RAM_THP)) {
		out->huge_mib_s = out->page_mib_s;
		out->protect_huge_us = out->protect_page_us * 512;
		return ok;
	}
	ok = save_child(&huge, &out->huge_mib_s, &out->begin_us);
	if (!ok)
		snprintf(why, room, "%s", snap_error_message());
	else
		out->protect_huge_us = protect_us(&huge) / (ROOM / BLOCK);
	ram_free(&huge);
	return ok;
}

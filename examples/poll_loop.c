// SPDX-License-Identifier: MIT
/*
 * poll_loop - a snapshot inside a program's own event loop.
 *
 *	poll_loop IMAGE [MIB]
 *
 * The loop waits for three things at once: its own timer, Ctrl-C and the
 * snapshot.  libsnap brings one descriptor, snap_fd(), and never blocks the
 * loop; epoll, libuv or any other loop is used in the same way.
 */
#include <errno.h>
#include <inttypes.h>
#include <libsnap.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum { TIMER, CTRL_C, SNAPSHOT, FDS };

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "poll_loop: %s: %s\n", what, why);
	return -1;
}

/* What a loop has anyway: a timer (10 times a second) and a signal. */
static int open_loop(struct pollfd *fds)
{
	const struct itimerspec tick = {.it_value.tv_nsec = 100000000,
					.it_interval.tv_nsec = 100000000};
	sigset_t ctrl_c;

	sigemptyset(&ctrl_c);
	sigaddset(&ctrl_c, SIGINT);
	if (sigprocmask(SIG_BLOCK, &ctrl_c, NULL))
		return fail("sigprocmask", strerror(errno));
	fds[CTRL_C].fd = signalfd(-1, &ctrl_c, SFD_CLOEXEC | SFD_NONBLOCK);
	fds[TIMER].fd =
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (fds[CTRL_C].fd < 0 || fds[TIMER].fd < 0 ||
	    timerfd_settime(fds[TIMER].fd, 0, &tick, NULL))
		return fail("cannot set the loop up", strerror(errno));
	return 0;
}

static int begin(struct snap **s, const char *image, void *data, size_t length)
{
	const struct snap_options opts = {
		.size = sizeof(opts), .output = image, .flags = SNAP_OVERWRITE};
	const struct snap_region region = {.size = sizeof(region),
					   .name = "data",
					   .addr = data,
					   .length = length};

	if (snap_create(s, &opts) || snap_add_region(*s, &region) ||
	    snap_prepare(*s) || snap_begin(*s))
		return fail("cannot begin the snapshot", snap_error_message());
	return 0;
}

static void print_progress(struct snap *s)
{
	struct snap_stats st = {.size = sizeof(st)};

	if (snap_get_stats(s, &st))
		return;
	printf("%" PRIu64 " of %" PRIu64 " pages saved, %" PRIu64
	       " MiB written\n",
	       st.pages_by_fault + st.pages_by_sweep + st.pages_in_pause +
		       st.pages_absent,
	       st.pages_total, st.bytes_written / MIB);
}

/* Returns 0 when the image is complete. */
static int loop(struct snap *s, struct pollfd *fds)
{
	struct signalfd_siginfo sig;
	uint64_t ticks;
	int err = -EINPROGRESS;

	fds[SNAPSHOT].fd = snap_fd(s);
	while (err == -EINPROGRESS) {
		if (poll(fds, FDS, -1) < 0) {
			if (errno == EINTR)
				continue;
			return fail("poll", strerror(errno));
		}
		if (read(fds[TIMER].fd, &ticks, sizeof(ticks)) > 0)
			print_progress(s);
		if (read(fds[CTRL_C].fd, &sig, sizeof(sig)) > 0)
			snap_cancel(s); /* its end comes by snap_fd(), too */
		if (fds[SNAPSHOT].revents)
			err = snap_process(s);
	}
	print_progress(s);
	return err ? fail("no image", snap_error_message()) : 0;
}

int main(int argc, char **argv)
{
	struct pollfd fds[FDS] = {
		[TIMER] = {.events = POLLIN},
		[CTRL_C] = {.events = POLLIN},
		[SNAPSHOT] = {.events = POLLIN},
	};
	size_t length = (argc > 2 ? strtoul(argv[2], NULL, 10) : 256) * MIB;
	struct snap *s = NULL;
	void *data;
	int err;

	if (argc < 2 || !length) {
		fputs("usage: poll_loop IMAGE [MIB]\n", stderr);
		return 2;
	}
	data = mmap(NULL, length, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data == MAP_FAILED)
		return fail("no memory", strerror(errno)) ? 1 : 0;
	memset(data, 'x', length);

	err = open_loop(fds);
	if (!err)
		err = begin(&s, argv[1], data, length);
	if (!err)
		err = loop(s, fds);
	snap_destroy(s);
	if (!err)
		printf("%s is complete\n", argv[1]);
	return err ? 1 : 0;
}

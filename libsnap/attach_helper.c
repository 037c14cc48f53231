// SPDX-License-Identifier: MIT
/*
 * The helper process: obeys commands until its socket is closed.
 *
 * It is a copy of a process with threads that are not in the copy, any of
 * which may have held a lock of malloc, stdio or the translations at that
 * moment.  So nothing here or below allocates, prints or asks for a text that
 * can be translated.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "attach_internal.h"
#include "attach_sys.h"
#include "sys.h"
#include "util/util.h"

int attach_error(int err, enum snap_failure failure, const char *fmt, ...)
{
	const char *reason = strerrordesc_np(-err);
	char text[ERROR_TEXT_MAX / 2];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return error_set(err, failure, "%s: %s", text,
			 reason ? reason : "unknown error");
}

static int by_value(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Above all the userfaultfds of other targets: one kept open here would hold
 * their threads for ever when the caller is killed. */
static void close_all_but(int *keep, size_t n)
{
	unsigned from = 0;

	qsort(keep, n, sizeof(*keep), by_value);
	for (size_t i = 0; i < n; i++) {
		unsigned fd = (unsigned)keep[i];

		if (fd > from)
			close_range(from, fd - 1, 0);
		from = fd + 1;
	}
	close_range(from, ~0u, 0);
}

/* Never the first to go when memory is short; not everybody may ask for it. */
static void be_spared(void)
{
	int fd = sys_open("/proc/self/oom_score_adj", O_WRONLY, 0);

	if (fd >= 0) {
		if (sys_write(fd, "-1000", 5) < 0)
			sys_write(fd, "0", 1);
		sys_close(fd);
	}
	/* What is in memory stays there: no wait for the swap device while the
	 * target stands. */
	mlockall(MCL_CURRENT | MCL_ONFAULT);
}

static void ignore(int sig)
{
}

/* All stay blocked but for one place in attach_stop.c.  SIGCHLD has a handler
 * all the same, as the kernel sends none to those who ignore it. */
static void set_signals(struct attach_helper *h)
{
	struct sigaction child = {.sa_handler = ignore};
	struct sigaction tick = {.sa_handler = attach_on_tick};
	sigset_t all;

	attach_tick_for(h);
	sigaction(SIGCHLD, &child, NULL);
	sigaction(SIGALRM, &tick, NULL);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
}

static int send_reply(const struct attach_helper *h,
		      const struct attach_reply *reply, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)reply, sizeof(*reply)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return (int)sys_sendmsg(h->sock, &msg, 0);
}

static int take(struct attach_helper *h, struct attach_reply *reply, int *uffd)
{
	int err = attach_stop_threads(h);

	if (!err) {
		reply->threads = (unsigned)attach_stopped_threads(h);
		err = attach_make_uffd(h, reply, uffd);
	}
	attach_resume_threads(h);
	reply->stopped_ns = now_ns() - h->first_stop_ns;
	return err;
}

static int stop(struct attach_helper *h, struct attach_reply *reply)
{
	int err = attach_stop_threads(h);

	if (err)
		attach_resume_threads(h);
	h->stopped = !err;
	reply->threads = (unsigned)attach_stopped_threads(h);
	return err;
}

static int resume(struct attach_helper *h, struct attach_reply *reply)
{
	if (!h->stopped)
		return error_set(-ETIMEDOUT, SNAP_FAILURE_INTERNAL,
				 "process %d was let go after %u ms of pause, "
				 "before the caller asked for it",
				 h->target->pid, h->options->stop_limit_ms);
	h->stopped = false;
	attach_resume_threads(h);
	reply->stopped_ns = now_ns() - h->first_stop_ns;
	return 0;
}

static void obey(struct attach_helper *h, enum attach_verb verb)
{
	struct attach_reply reply = {0};
	int uffd = -1;

	switch (verb) {
	case ATTACH_VERB_TAKE:
		reply.err = take(h, &reply, &uffd);
		break;
	case ATTACH_VERB_STOP:
		reply.err = stop(h, &reply);
		break;
	case ATTACH_VERB_RESUME:
		reply.err = resume(h, &reply);
		break;
	}
	if (reply.err) {
		reply.failure = error_failure();
		snprintf(reply.text, sizeof(reply.text), "%s", error_text());
	}
	send_reply(h, &reply, uffd);
	if (uffd >= 0)
		sys_close(uffd);
	if (reply.err)
		_exit(1);
}

/* False when nothing comes for as long as a stop may take. */
static bool command_comes(struct attach_helper *h)
{
	struct pollfd p = {.fd = h->sock, .events = POLLIN};

	if (!h->stopped)
		return true;
	return sys_poll(&p, 1, (int)h->options->stop_limit_ms) != 0;
}

_Noreturn void attach_helper_run(const struct attach *a, int sock)
{
	struct attach_helper h = {
		.options = &a->options,
		.target = &a->target,
		.sock = sock,
	};
	int keep[] = {sock, a->target.pidfd, a->target.proc_fd,
		      a->target.mem_fd};
	enum attach_verb verb;

	close_all_but(keep, ARRAY_SIZE(keep));
	set_signals(&h);
	setsid();
	prctl(PR_SET_NAME, "snap-attach");
	be_spared();
	for (;;) {
		if (!command_comes(&h)) {
			h.stopped = false;
			attach_resume_threads(&h);
		} else if (sys_read(sock, &verb, sizeof(verb)) ==
			   sizeof(verb)) {
			obey(&h, verb);
		} else {
			break;
		}
		/* Threads that only our end lets go of. */
		if (h.stuck)
			_exit(1);
	}
	attach_resume_threads(&h);
	_exit(0);
}

// SPDX-License-Identifier: MIT
/* The caller's handle of a target: commands to the helper and its answers. */
#include "attach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attach_internal.h"
#include "attach_sys.h"
#include "sys.h"
#include "util/util.h"

/* A helper that does not let go within this is killed, which does it. */
#define RESUME_WAIT_MS 1000
/* Between attempts: longer than most programs stay in vfork(). */
#define RETRY_PAUSE_MS 20

int attach_open(struct attach **out, const struct attach_options *opts)
{
	struct attach *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return error_nomem("a handle of a process");
	a->options = *opts;
	a->sock = -1;
	if (!a->options.stop_deadline_ms)
		a->options.stop_deadline_ms = 100;
	if (!a->options.retry_ms)
		a->options.retry_ms = 2000;
	if (!a->options.stop_limit_ms)
		a->options.stop_limit_ms = 10000;
	err = attach_target_open(&a->target, opts->pid);
	if (!err)
		err = attach_spawn(a);
	if (err) {
		attach_target_close(&a->target);
		free(a);
		return err;
	}
	*out = a;
	return 0;
}

static int send_verb(struct attach *a, enum attach_verb verb)
{
	struct iovec iov = {&verb, sizeof(verb)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	do
		n = sys_sendmsg(a->sock, &msg, 0);
	while (n == -EINTR);
	return n < 0 ? (int)n : 0;
}

static int receive(struct attach *a, struct attach_reply *reply, int *fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {reply, sizeof(*reply)};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	const struct cmsghdr *c;
	ssize_t n;

	do
		n = sys_recvmsg(a->sock, &msg, 0);
	while (n == -EINTR);
	if (n != sizeof(*reply))
		return n < 0 ? (int)n : -EPIPE;
	c = CMSG_FIRSTHDR(&msg);
	if (fd && c)
		memcpy(fd, CMSG_DATA(c), sizeof(*fd));
	return 0;
}

/* One command and its answer.  A helper that failed is waited for, so that
 * every thread it held is let go when this returns. */
static int command(struct attach *a, enum attach_verb verb,
		   struct attach_reply *reply, int *fd)
{
	int err = attach_spawn(a);

	if (err)
		return err;
	err = send_verb(a, verb);
	if (!err)
		err = receive(a, reply, fd);
	if (err) {
		attach_reap(a, false);
		return error_set(-ESRCH, SNAP_FAILURE_INTERNAL,
				 "the helper that traces process %d has ended "
				 "(killed?)",
				 a->target.pid);
	}
	if (reply->err) {
		attach_reap(a, false);
		return error_set(reply->err, reply->failure, "%s", reply->text);
	}
	return 0;
}

static int own_descriptors(const struct attach *a, struct attach_result *r)
{
	r->pidfd = sys_dup(a->target.pidfd);
	r->mem_fd = sys_dup(a->target.mem_fd);
	if (r->pidfd >= 0 && r->mem_fd >= 0)
		return 0;
	if (r->pidfd >= 0)
		sys_close(r->pidfd);
	if (r->mem_fd >= 0)
		sys_close(r->mem_fd);
	return error_sys(-EMFILE, SNAP_FAILURE_INTERNAL,
			 "cannot copy the descriptors of process %d",
			 a->target.pid);
}

/* Attempts until one does not time out or @retry_ms are over. */
static int take(struct attach *a, struct attach_reply *reply, int *uffd,
		unsigned *attempts)
{
	uint64_t end = now_ns() + a->options.retry_ms * UINT64_C(1000000);
	struct timespec pause = {.tv_nsec = RETRY_PAUSE_MS * 1000000L};
	int err;

	for (*attempts = 1;; ++*attempts) {
		err = command(a, ATTACH_VERB_TAKE, reply, uffd);
		if (err != -ETIMEDOUT || now_ns() >= end)
			return err;
		nanosleep(&pause, NULL);
	}
}

int attach_take_uffd(struct attach *a, struct attach_result *result)
{
	struct attach_reply reply;
	struct attach_result r = {.uffd = -1};
	int err;

	if (a->stopped)
		return error_set(-EALREADY, SNAP_FAILURE_USAGE,
				 "process %d is stopped: resume it first",
				 a->target.pid);
	err = take(a, &reply, &r.uffd, &r.attempts);
	if (err)
		return err;
	/* The kernel drops a descriptor for which our table has no room. */
	if (r.uffd < 0)
		return error_sys(-EMFILE, SNAP_FAILURE_INTERNAL,
				 "cannot receive the userfaultfd of process %d",
				 a->target.pid);
	err = own_descriptors(a, &r);
	if (err) {
		sys_close(r.uffd);
		return err;
	}
	r.method = reply.method;
	r.threads = reply.threads;
	r.stopped_us = reply.stopped_ns / 1000;
	r.inject_us = reply.inject_ns / 1000;
	*result = r;
	return 0;
}

int attach_stop(struct attach *a)
{
	struct attach_reply reply;
	int err;

	if (a->stopped)
		return error_set(-EALREADY, SNAP_FAILURE_USAGE,
				 "process %d is stopped already",
				 a->target.pid);
	err = command(a, ATTACH_VERB_STOP, &reply, NULL);
	a->stopped = !err;
	return err;
}

static bool answers(const struct attach *a, int timeout_ms)
{
	struct pollfd p = {.fd = a->sock, .events = POLLIN};
	int n;

	do
		n = sys_poll(&p, 1, timeout_ms);
	while (n == -EINTR);
	return n == 1;
}

int attach_resume(struct attach *a)
{
	struct attach_reply reply;
	int err;

	if (!a->stopped)
		return error_set(-EALREADY, SNAP_FAILURE_USAGE,
				 "process %d is not stopped", a->target.pid);
	a->stopped = false;
	err = send_verb(a, ATTACH_VERB_RESUME);
	if (!err && !answers(a, RESUME_WAIT_MS))
		err = -ETIMEDOUT;
	if (!err)
		err = receive(a, &reply, NULL);
	if (err) {
		/* Nothing is being injected now: its death only detaches. */
		attach_reap(a, true);
		return error_set(-ESRCH, SNAP_FAILURE_INTERNAL,
				 "the helper that held process %d has ended "
				 "during the pause: its threads ran on too "
				 "early",
				 a->target.pid);
	}
	if (reply.err) {
		attach_reap(a, false);
		return error_set(reply.err, reply.failure, "%s", reply.text);
	}
	return 0;
}

void attach_close(struct attach *a)
{
	if (!a)
		return;
	attach_reap(a, false);
	attach_target_close(&a->target);
	free(a);
}

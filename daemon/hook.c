// SPDX-License-Identifier: MIT
/* Commands of the operator's that pause, describe and resume a guest. */
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_MS 10000
#define OUTPUT_MAX ((size_t)256 << 20)
#define STEP ((size_t)1 << 20)

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A pipe is also how its end is noticed: nobody holds the other end then. */
static pid_t start(const char *command, int pid, int *from, int keep)
{
	char text[32];
	sigset_t none;
	int fds[2];
	pid_t child;

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	child = fork();
	if (!child) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setpgid(0, 0); /* so that all of it can be killed */
		snprintf(text, sizeof(text), "%d", pid);
		setenv("SNAPD_PID", text, 1);
		dup2(keep ? fds[1] : STDERR_FILENO, STDOUT_FILENO);
		if (!keep)
			fcntl(fds[1], F_SETFD, 0);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	if (child < 0)
		close(fds[0]);
	else
		*from = fds[0];
	return child;
}

struct output {
	char *data;
	size_t len, room;
};

/* More of it.  1, 0 at the end, -1 when there is too much or no memory. */
static int take(int fd, struct output *o)
{
	char *more;
	ssize_t n;

	if (o->len == o->room) {
		if (o->room == OUTPUT_MAX)
			return -1;
		more = realloc(o->data, o->room + STEP);
		if (!more)
			return -1;
		o->data = more;
		o->room += STEP;
	}
	n = read(fd, o->data + o->len, o->room - o->len);
	if (n < 0)
		return errno == EINTR ? 1 : -1;
	o->len += (size_t)n;
	return n > 0;
}

/* NULL, or what is wrong. */
static const char *follow(int fd, struct output *o)
{
	int64_t deadline = now_ms() + LIMIT_MS, left;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;

	for (;;) {
		left = deadline - now_ms();
		n = left > 0 ? poll(&p, 1, (int)left) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return "takes more than 10 s";
		n = take(fd, o);
		if (n < 0)
			return "writes too much";
		if (!n)
			return NULL;
	}
}

int hook_run(const char *command, int pid, void **out, size_t *len,
	     struct failure *f)
{
	struct output o = {0};
	const char *wrong;
	int fd, status = 0;
	pid_t child = start(command, pid, &fd, out != NULL);

	if (child < 0)
		return failure_set(f, EXIT_FAILED, "cannot run \"%s\": %s",
				   command, strerror(errno));
	wrong = follow(fd, &o);
	close(fd);
	if (wrong)
		kill(-child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (!wrong && status)
		wrong = "failed";
	if (!wrong && out) {
		*out = o.data;
		*len = o.len;
		return 0;
	}
	free(o.data);
	return wrong ? failure_set(f, EXIT_FAILED, "the command \"%s\" %s",
				   command, wrong)
		     : 0;
}

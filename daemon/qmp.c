// SPDX-License-Identifier: MIT
/* Stops, saves the devices of, and continues a QEMU over its QMP socket. */
#include "qmp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MS 5000
#define LINE_MAX_BYTES (1u << 20)
/* Of devices, without RAM: some ten KiB, with a display some MiB. */
#define STATE_MAX ((size_t)256 << 20)

struct qmp {
	char *path;
	int fd;
	unsigned id;
	bool stop_sent;
	bool was_running;
	char *line;
	size_t used; /* bytes of it that have come */
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int refuse(const struct qmp *q, struct failure *f, const char *what)
{
	return failure_set(f, EXIT_REFUSED, "QMP socket %s %s", q->path, what);
}

/* ---- lines ---- */

/* Wait until @events or the deadline.  0 or -1. */
static int wait_for(struct qmp *q, short events, int64_t deadline,
		    struct failure *f)
{
	struct pollfd p = {.fd = q->fd, .events = events};
	int64_t left;
	int n;

	do {
		left = deadline - now_ms();
		if (left <= 0)
			return refuse(q, f,
				      "does not answer: is another client "
				      "connected to it?");
		n = poll(&p, 1, (int)left);
	} while (n == 0 || (n < 0 && errno == EINTR));
	return n < 0 ? refuse(q, f, strerror(errno)) : 0;
}

/* More bytes into q->line. */
static int receive(struct qmp *q, int64_t deadline, struct failure *f)
{
	ssize_t n;

	if (q->used == LINE_MAX_BYTES)
		return refuse(q, f, "sends more than a line of 1 MiB");
	if (wait_for(q, POLLIN, deadline, f))
		return -1;
	n = recv(q->fd, q->line + q->used, LINE_MAX_BYTES - q->used, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return refuse(q, f, strerror(errno));
	if (n == 0)
		return refuse(q, f, "was closed by QEMU");
	q->used += (size_t)n;
	return 0;
}

/* The next object, to be freed, or NULL. */
static json_t *next_object(struct qmp *q, int64_t deadline, struct failure *f)
{
	char *end;
	json_t *o;
	size_t len;

	while (!(end = memchr(q->line, '\n', q->used)))
		if (receive(q, deadline, f))
			return NULL;
	len = (size_t)(end - q->line) + 1;
	o = json_loadb(q->line, len, 0, NULL);
	q->used -= len;
	memmove(q->line, q->line + len, q->used);
	if (json_is_object(o))
		return o;
	json_decref(o);
	refuse(q, f, "does not speak QMP");
	return NULL;
}

/* @pass: a descriptor to go with the first byte, or -1. */
static int send_all(struct qmp *q, const char *text, size_t len, int pass,
		    int64_t deadline, struct failure *f)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	ssize_t n;

	while (len) {
		struct iovec iov = {(void *)text, len};
		struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

		if (pass >= 0) {
			m.msg_control = control.bytes;
			m.msg_controllen = sizeof(control.bytes);
			CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
			CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
			CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
			memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &pass,
			       sizeof(pass));
		}
		if (wait_for(q, POLLOUT, deadline, f))
			return -1;
		n = sendmsg(q->fd, &m, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return refuse(q, f, strerror(errno));
		if (n <= 0)
			continue;
		text += n;
		len -= (size_t)n;
		pass = -1;
	}
	return 0;
}

/* ---- commands ---- */

static int refused_command(struct qmp *q, const char *name, json_t *answer,
			   struct failure *f)
{
	const char *why = NULL;
	char text[300];

	json_unpack(answer, "{s:{s:s}}", "error", "desc", &why);
	snprintf(text, sizeof(text), "refuses the command %s: %s", name,
		 why ? why : "no reason is given");
	return refuse(q, f, text);
}

/*
 * Run a command; @arguments are taken over.  0 with *result (borrowed from
 * *answer, which is to be freed) or -1.
 */
static int command(struct qmp *q, const char *name, json_t *arguments, int pass,
		   json_t **answer, struct failure *f)
{
	int64_t deadline = now_ms() + ANSWER_MS;
	json_int_t id = ++q->id, got;
	json_t *o = json_pack("{s:s,s:I,s:o*}", "execute", name, "id", id,
			      "arguments", arguments);
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	int err = -1;

	json_decref(o);
	if (text)
		err = send_all(q, text, strlen(text), pass, deadline, f);
	else
		failure_set(f, EXIT_FAILED, "no memory for a QMP command");
	free(text);
	if (err)
		return -1;
	for (;;) {
		o = next_object(q, deadline, f);
		if (!o)
			return -1;
		if (!json_unpack(o, "{s:I}", "id", &got) && got == id)
			break;
		json_decref(o); /* an event, or an answer that came late */
	}
	if (json_object_get(o, "return")) {
		*answer = o;
		return 0;
	}
	err = refused_command(q, name, o, f);
	json_decref(o);
	return err;
}

static int simple(struct qmp *q, const char *name, json_t *arguments,
		  struct failure *f)
{
	json_t *answer;

	if (command(q, name, arguments, -1, &answer, f))
		return -1;
	json_decref(answer);
	return 0;
}

/* ---- connecting ---- */

static int dial(struct qmp *q, struct failure *f)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	if (strlen(q->path) >= sizeof(to.sun_path))
		return refuse(q, f, "has a name that is too long for a socket");
	strcpy(to.sun_path, q->path);
	q->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (q->fd < 0 ||
	    connect(q->fd, (const struct sockaddr *)&to, sizeof(to))) {
		char text[200];

		snprintf(text, sizeof(text), "cannot be connected to: %s",
			 strerror(errno));
		return refuse(q, f, text);
	}
	return 0;
}

static int greet(struct qmp *q, struct failure *f)
{
	json_t *o = next_object(q, now_ms() + ANSWER_MS, f);
	bool is_qmp = o && json_object_get(o, "QMP");

	json_decref(o);
	if (!o)
		return -1;
	if (!is_qmp)
		return refuse(q, f, "does not speak QMP");
	return simple(q, "qmp_capabilities", NULL, f);
}

static int reconnect(struct qmp *q, struct failure *f)
{
	if (q->fd >= 0)
		close(q->fd);
	q->fd = -1;
	q->used = 0;
	return dial(q, f) || greet(q, f) ? -1 : 0;
}

int qmp_open(struct qmp **out, const char *path, struct failure *f)
{
	struct qmp *q = calloc(1, sizeof(*q));

	if (q)
		q->path = strdup(path);
	if (q)
		q->line = malloc(LINE_MAX_BYTES);
	if (!q || !q->path || !q->line) {
		failure_set(f, EXIT_FAILED, "no memory for the QMP connection");
		qmp_close(q);
		return -1;
	}
	q->fd = -1;
	if (reconnect(q, f)) {
		qmp_close(q);
		return -1;
	}
	*out = q;
	return 0;
}

void qmp_close(struct qmp *q)
{
	if (!q)
		return;
	if (q->fd >= 0)
		close(q->fd);
	free(q->path);
	free(q->line);
	free(q);
}

/* ---- its memory ---- */

/* "Host virtual address for 0x0 (pc.ram) is 0x7f..." */
static int host_address(json_t *answer, uint64_t *start)
{
	const char *text = NULL, *at;

	if (json_unpack(answer, "{s:s}", "return", &text))
		return -1;
	at = strstr(text, ") is 0x");
	return at && sscanf(at, ") is 0x%" SCNx64, start) == 1 ? 0 : -1;
}

int qmp_guest_ram(struct qmp *q, uint64_t *start, uint64_t *length,
		  struct failure *f)
{
	struct failure unsaid = {0};
	json_int_t bytes = 0;
	json_t *answer;
	int err;

	if (command(q, "query-memory-size-summary", NULL, -1, &answer, f))
		return -1;
	json_unpack(answer, "{s:{s:I}}", "return", "base-memory", &bytes);
	json_decref(answer);
	*length = (uint64_t)bytes;
	/* There is no command of QMP itself for it. */
	if (command(q, "human-monitor-command",
		    json_pack("{s:s}", "command-line", "gpa2hva 0"), -1,
		    &answer, &unsaid))
		return -1;
	err = host_address(answer, start);
	json_decref(answer);
	return bytes > 0 ? err : -1;
}

/* ---- the pause ---- */

int qmp_stop(struct qmp *q, struct failure *f)
{
	json_t *answer;
	int running = 0, err;

	if (command(q, "query-status", NULL, -1, &answer, f))
		return -1;
	err = json_unpack(answer, "{s:{s:b}}", "return", "running", &running);
	json_decref(answer);
	if (err)
		return refuse(q, f, "does not say whether the guest runs");
	q->was_running = running;
	q->stop_sent = running;
	return running ? simple(q, "stop", NULL, f) : 0;
}

int qmp_cont(struct qmp *q, struct failure *f)
{
	struct failure first = {0};

	if (!q->stop_sent)
		return 0;
	if (simple(q, "cont", NULL, &first) &&
	    (reconnect(q, f) || simple(q, "cont", NULL, f)))
		return failure_set(f, EXIT_FAILED,
				   "the guest cannot be continued: %s",
				   first.text);
	q->stop_sent = false;
	return 0;
}

/* ---- the devices ---- */

/* Read what QEMU wrote. */
static int read_state(struct qmp *q, int fd, void **data, size_t *len,
		      struct failure *f)
{
	struct stat st;
	size_t at = 0;
	ssize_t n;
	char *p;

	if (fstat(fd, &st) || !st.st_size || (size_t)st.st_size > STATE_MAX)
		return refuse(q, f, "gave no device state, or too much");
	p = malloc((size_t)st.st_size);
	if (!p)
		return failure_set(f, EXIT_FAILED,
				   "no memory for the device state");
	while (at < (size_t)st.st_size) {
		n = pread(fd, p + at, (size_t)st.st_size - at, (off_t)at);
		if (n <= 0) {
			free(p);
			return refuse(q, f, "cut its device state short");
		}
		at += (size_t)n;
	}
	*data = p;
	*len = at;
	return 0;
}

/* QEMU looks in a set for a descriptor with just the mode it opens with. */
static int open_for_writing(int fd)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_CLOEXEC);
}

static int save_to(struct qmp *q, int write_end, struct failure *f)
{
	json_t *answer;
	json_int_t set;
	char name[48];
	int err;

	if (command(q, "add-fd", NULL, write_end, &answer, f))
		return -1;
	err = json_unpack(answer, "{s:{s:I}}", "return", "fdset-id", &set);
	json_decref(answer);
	if (err)
		return refuse(q, f,
			      "does not say which descriptor set it made");
	snprintf(name, sizeof(name), "/dev/fdset/%" PRId64, (int64_t)set);
	/* live: false, as with true the block devices of a stopped guest are
	 * handed over and lost to it. */
	err = simple(q, "xen-save-devices-state",
		     json_pack("{s:s,s:b}", "filename", name, "live", 0), f);
	if (!err)
		err = simple(q, "remove-fd",
			     json_pack("{s:I}", "fdset-id", set), f);
	return err;
}

int qmp_device_state(struct qmp *q, void **data, size_t *len, struct failure *f)
{
	int fd = memfd_create("snapd-device-state", MFD_CLOEXEC);
	int write_end = fd >= 0 ? open_for_writing(fd) : -1;
	int err = -1;

	if (write_end < 0)
		failure_set(f, EXIT_FAILED,
			    "cannot make a file for the device state: %s",
			    strerror(errno));
	else if (!save_to(q, write_end, f))
		err = read_state(q, fd, data, len, f);
	if (write_end >= 0)
		close(write_end);
	if (fd >= 0)
		close(fd);
	return err;
}

// SPDX-License-Identifier: MIT
/* Checks of failures: errno, class and text in one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "expect.h"
#include "scene.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

struct outcome outcome_of(int err)
{
	struct outcome o = {.err = err};

	if (err) {
		o.failure = snap_error_failure();
		snprintf(o.text, sizeof(o.text), "%s", snap_error_message());
	}
	return o;
}

static void expect_words(const struct outcome *o, const char *words)
{
	char copy[256];
	char *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", words);
	while ((word = strsep(&rest, "|")))
		if (!strstr(o->text, word))
			fail_msg("no \"%s\" in \"%s\"", word, o->text);
}

void expect_outcome(const struct outcome *o, int err, enum snap_failure failure,
		    const char *words)
{
	if (o->err != err || (err && o->failure != failure))
		fail_msg("%d class %d (\"%s\"), not %d class %d", o->err,
			 o->failure, o->text, err, failure);
	if (err && !o->text[0])
		fail_msg("%d without a text", err);
	expect_words(o, words);
}

void expect_error(int got, int err, enum snap_failure failure,
		  const char *words)
{
	struct outcome o = outcome_of(got);

	expect_outcome(&o, err, failure, words);
}

/* /proc/self stays ours although the user has changed. */
static int become_nobody(int trace)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {{0}};

	if (prctl(PR_SET_KEEPCAPS, trace) < 0 || setgroups(0, NULL) < 0 ||
	    setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
		return -errno;
	if (trace) {
		caps[0].permitted = 1u << CAP_SYS_PTRACE;
		caps[0].effective = 1u << CAP_SYS_PTRACE;
	}
	if (syscall(SYS_capset, &head, caps) < 0)
		return -errno;
	return prctl(PR_SET_DUMPABLE, 1) < 0 ? -errno : 0;
}

struct outcome run_as_nobody(struct outcome (*fn)(void *arg), void *arg,
			     int trace)
{
	struct outcome o = {0};
	int ends[2], status;
	pid_t pid;

	if (geteuid() != 0)
		scene_skip("changing the user needs root");
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		if (become_nobody(trace))
			_exit(1);
		o = fn(arg);
		_exit(write(ends[1], &o, sizeof(o)) != sizeof(o));
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &o, sizeof(o)), sizeof(o));
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return o;
}

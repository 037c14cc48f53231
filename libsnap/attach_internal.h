/* SPDX-License-Identifier: MIT */
/* What the files of attach share: the target, the helper, one injection. */
#ifndef SNAP_ATTACH_INTERNAL_H
#define SNAP_ATTACH_INTERNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "attach.h"
#include "error.h"

/** A process that passed the checks. */
struct attach_target {
	pid_t pid;
	pid_t tid; /* the thread that /proc is read by: the first, or another
			one when that has ended */
	int pidfd;
	int proc_fd; /* /proc/PID of this very process, whoever has its number
			later */
	int mem_fd;
	uint64_t gadget; /* address of a syscall instruction */
};

/* attach_target.c: in the caller's process */
int attach_target_open(struct attach_target *t, pid_t pid);
void attach_target_close(struct attach_target *t);

/* attach_spawn.c: the caller's end of the helper */
enum attach_verb {
	ATTACH_VERB_TAKE = 1,
	ATTACH_VERB_STOP = 2,
	ATTACH_VERB_RESUME = 3,
};

struct attach_reply {
	int err;
	enum snap_failure failure;
	enum attach_method method;
	unsigned threads;
	uint64_t stopped_ns, inject_ns;
	char text[ERROR_TEXT_MAX];
};

struct attach {
	struct attach_options options;
	struct attach_target target;
	pid_t helper; /* 0: none */
	int sock;
	bool stopped;
};

/** Start the helper if there is none. */
int attach_spawn(struct attach *a);
/** Close the socket, which tells the helper to end, and wait for that; with
 * @kill it is not given the choice. */
void attach_reap(struct attach *a, bool kill);

/* attach_helper.c and below: in the helper's process, without malloc */

/** A thread that we trace. */
struct tracee {
	pid_t tid;
	bool stopped; /* in a ptrace stop, so that it can be detached */
	bool gone;    /* has ended, and we have waited for it */
	struct user_regs_struct regs; /* as they are to be put back */
};

struct attach_helper {
	const struct attach_options *options;
	const struct attach_target *target;
	struct tracee *tracees;
	size_t count, capacity;
	int sock;
	bool stopped;
	bool stuck; /* some thread could not be let go: only our end can */
	uint64_t first_stop_ns, deadline_ns;
};

_Noreturn void attach_helper_run(const struct attach *a, int sock);

/** error_sys() for the helper, without the locks of a translated text. */
int attach_error(int err, enum snap_failure failure, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* attach_stop.c */
/** SIGALRM's handler, and whom it works for. */
void attach_on_tick(int sig);
void attach_tick_for(struct attach_helper *h);
int attach_stop_threads(struct attach_helper *h);
void attach_resume_threads(struct attach_helper *h);
size_t attach_stopped_threads(const struct attach_helper *h);
/** Wait for @t to stop as PTRACE_INTERRUPT asked it to; signals that come
 * first are passed on.  0, -ESRCH (ended), -EEXIST (called exec),
 * -ETIMEDOUT. */
int attach_settle(struct tracee *t, uint64_t deadline_ns);
/** waitpid(@tid) with a deadline; 0: none.  0, -ECHILD, -ETIMEDOUT. */
int attach_wait(pid_t tid, int *status, uint64_t deadline_ns);
/** Kernel threads in a process's clothes: never to be changed. */
bool attach_is_worker(const struct attach_helper *h, pid_t tid);

/* attach_inject.c */
struct injection {
	const struct attach_helper *helper;
	struct tracee *thread;
	uint64_t sigmask;
	bool syscall_dispatch; /* was on */
	struct {
		uint64_t mode, selector, offset, length;
	} dispatch;
	bool begun; /* a call has been made */
	bool lost; /* the thread ended or does not run: nothing more is tried */
};

int inject_begin(struct injection *in, struct attach_helper *h);
/** Have the thread make a system call: its result or -errno.  When in->lost is
 * set by it, the call was not made or its thread has ended. */
int64_t inject_syscall(struct injection *in, long nr,
		       const uint64_t args[static 6]);
/** Put everything back.  0 or -ESRCH. */
int inject_end(struct injection *in);
/** Take descriptor @fd of the thread over: ours or -errno. */
int inject_steal_fd(const struct injection *in, int fd);

#define INJECT(in, nr, ...)                                                    \
	inject_syscall(in, nr, (const uint64_t[6]){__VA_ARGS__})

/* attach_uffd.c */
int attach_make_uffd(struct attach_helper *h, struct attach_reply *reply,
		     int *uffd);
/* attach_device.c */
int64_t attach_uffd_by_device(struct injection *in, int device);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A userfaultfd made inside another process, and its threads stopped for the
 * pause.
 *
 * How it works
 *
 * All ptrace work is done by a small helper process that attach_open() starts
 * and that obeys one command at a time over a socket:
 *
 *	caller          helper                          target
 *	open      ->    (waits)                         runs
 *	take_uffd ->    stop, inject, put back, let go  stands for 0.3 .. 5 ms
 *	stop      ->    stop                            stands
 *	resume    ->    let go                          runs
 *	close     ->    exits                           runs
 *
 * Only between the first injected call and the last register put back would a
 * death of the tracer hurt the target, and that tracer is the helper: it is in
 * a session of its own, blocks every signal and is spared by the OOM killer.
 * When the caller dies, at whatever moment, the helper finishes its command,
 * sees its socket closed, lets every thread go and exits.  When the helper
 * dies, the kernel detaches the threads.
 *
 * A helper whose command failed exits, as its death is the one sure way to let
 * go of a thread that does not stop; the next command starts another.
 */
#ifndef SNAP_ATTACH_H
#define SNAP_ATTACH_H

#include <stdint.h>
#include <sys/types.h>

/** Who makes the userfaultfd. */
enum attach_method {
	ATTACH_AUTO = 0,    /* the system call if the target may make it */
	ATTACH_SYSCALL = 1, /* userfaultfd(2) */
	ATTACH_DEVICE = 2,  /* our open /dev/userfaultfd, passed in */
};

struct attach_options {
	pid_t pid;
	enum attach_method method;
	unsigned stop_deadline_ms; /* for all threads to stop; 0: 100 */
	unsigned retry_ms;	   /* for attempts that time out; 0: 2000 */
	unsigned stop_limit_ms;	   /* longest stop before the helper lets the
				      threads go by itself; 0: 10000 */
};

/** What attach_take_uffd() got; the caller closes all three descriptors. */
struct attach_result {
	int uffd;   /* non-blocking, close-on-exec, UFFDIO_API not called */
	int pidfd;  /* readable when the target has ended */
	int mem_fd; /* /proc/PID/mem for reading: bound to this address space,
		       gives 0 bytes when the target has gone or called exec */
	enum attach_method method; /* the one taken */
	unsigned threads;	   /* stopped */
	unsigned attempts;	   /* 1: at once */
	uint64_t
		stopped_us; /* from the first thread stopped to the last gone */
	uint64_t inject_us; /* of that, between the registers being changed and
			      put back */
};

struct attach;

/**
 * Check that process @opts->pid can be attached to, without touching it, and
 * start the helper.
 *
 * Returns 0 or, with SNAP_FAILURE_REFUSED unless said otherwise,
 *   -ESRCH    no such process, or it ended meanwhile (SNAP_FAILURE_GONE); a
 *             zombie (REFUSED)
 *   -EPERM    no right to trace it
 *   -EBUSY    traced by another process, which the text names
 *   -EINVAL   our own process, or a thread's id
 *   -ENOTSUP  a kernel thread, a 32-bit program, no syscall instruction
 *   -ENOMEM, -EMFILE, -EAGAIN (SNAP_FAILURE_INTERNAL).
 */
int attach_open(struct attach **out, const struct attach_options *opts);

/**
 * Have the target make a userfaultfd and take it over; nothing of it stays in
 * the target.  All threads are stopped meanwhile, and tried again for
 * @retry_ms when one of them does not stop.
 *
 * Returns 0, what attach_stop() returns, or
 *   -EPERM    no userfaultfd that traps kernel faults is to be had, or a
 *             seccomp filter that may not be suspended
 *   -EMFILE   the target's descriptor table is full
 *   -ENOTSUP  no thread that runs 64-bit code, or no userfaultfd at all.
 * The target runs on as before in each case.
 */
int attach_take_uffd(struct attach *a, struct attach_result *result);

/**
 * Stop every thread.  Returns 0 or
 *   -ETIMEDOUT  a thread did not stop in time, as in vfork() or in a wait for
 *               a dead disk; all run again (SNAP_FAILURE_REFUSED)
 *   -ESRCH      the target has ended or called exec (SNAP_FAILURE_GONE)
 *   -EBUSY, -EPERM as attach_open()
 *   -EALREADY   is stopped.
 */
int attach_stop(struct attach *a);

/**
 * Let every thread run.  They run when this returns, whatever it returns:
 * 0; -ETIMEDOUT when the helper had let them go before, because the stop took
 * longer than @stop_limit_ms, so that nothing taken in this pause is from one
 * instant; -ESRCH when the helper was gone, which means the same; -EALREADY.
 */
int attach_resume(struct attach *a);

/** Let every thread run, end the helper and free.  NULL is fine. */
void attach_close(struct attach *a);

#endif

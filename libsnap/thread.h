/* SPDX-License-Identifier: MIT */
/* Library threads: all signals blocked, named for ps and perf. */
#ifndef SNAP_THREAD_H
#define SNAP_THREAD_H

#include <pthread.h>

/**
 * Start a thread named @name (15 bytes at most) with every signal blocked, so
 * that a handler of the program never runs on it and a SIGPIPE of our writes
 * stays pending here, where it harms nobody.
 * Returns 0 or -errno with the text set.
 */
int thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
		 void *arg);

/**
 * The calling thread answers guest faults and must run at once: lowest
 * real-time priority where the process may (CAP_SYS_NICE or RLIMIT_RTPRIO),
 * else like thread_yielding().  It must never spin.
 */
void thread_urgent(void);

/**
 * The calling thread keeps its priority but takes short turns, so that a guest
 * thread that wakes does not wait for the next tick (4 ms at 250 Hz) to get its
 * CPU.  Before Linux 6.12 this does nothing.
 */
void thread_yielding(void);

/**
 * The calling thread takes the lowest ordinary priority and short turns, so that
 * guest threads and the fault thread are preferred to it on a busy machine.  Only for threads
 * that never change mappings: one that is preempted in an unprotect or an
 * unregister holds the kernel's lock on the address space, and at this priority
 * the whole guest then waits for seconds.
 */
void thread_background(void);

/** CPUs this process may run on, at least 1. */
unsigned thread_cpus(void);

#endif

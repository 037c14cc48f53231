// SPDX-License-Identifier: MIT
/* Library threads: all signals blocked, named for ps and perf. */
#include "thread.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>

#include "error.h"
#include "sys.h"

int thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
		 void *arg)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(out, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return error_sys(-err, SNAP_FAILURE_INTERNAL,
				 "cannot start thread %s", name);
	pthread_setname_np(*out, name);
	return 0;
}

/* The shortest the kernel gives (kernel/sched/syscalls.c). */
#define SLICE_NS 100000u

#define NICE_LOWEST 19

void thread_urgent(void)
{
	if (sys_sched(SCHED_FIFO, 0, 1, 0))
		thread_yielding();
}

void thread_yielding(void)
{
	/* 0 is the calling thread alone, against POSIX: kernel/sys.c. */
	sys_sched(SCHED_OTHER, getpriority(PRIO_PROCESS, 0), 0, SLICE_NS);
}

void thread_background(void)
{
	if (sys_sched(SCHED_OTHER, NICE_LOWEST, 0, SLICE_NS))
		setpriority(PRIO_PROCESS, 0, NICE_LOWEST);
}

unsigned thread_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return (unsigned)CPU_COUNT(&set);
}

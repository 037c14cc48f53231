// SPDX-License-Identifier: MIT
/* Something happens at a chosen ptrace call of the helper. */
#include "attach_steps.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static void (*event)(void *arg);
static void *event_arg;
static unsigned event_step, step;
static _Atomic pid_t *reached; /* by this helper; shared with all of them */

long __real_sys_ptrace(int request, pid_t tid, uintptr_t addr, uintptr_t data);
long __wrap_sys_ptrace(int request, pid_t tid, uintptr_t addr, uintptr_t data);

long __wrap_sys_ptrace(int request, pid_t tid, uintptr_t addr, uintptr_t data)
{
	if (event && ++step == event_step) {
		atomic_store(reached, getpid());
		event(event_arg);
	}
	return __real_sys_ptrace(request, tid, addr, data);
}

void step_set(unsigned at, void (*fn)(void *arg), void *arg)
{
	if (!reached)
		reached = mmap(NULL, sizeof(*reached), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reached == MAP_FAILED)
		abort();
	atomic_store(reached, 0);
	event = fn;
	event_arg = arg;
	event_step = at;
	step = 0;
}

void step_clear(void)
{
	event = NULL;
}

pid_t step_reached(void)
{
	return reached ? atomic_load(reached) : 0;
}

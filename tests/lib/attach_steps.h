/* SPDX-License-Identifier: MIT */
/* Something happens at a chosen ptrace call of the helper: the test is linked
 * with --wrap=sys_ptrace, and the helper is a copy of the test. */
#ifndef TEST_ATTACH_STEPS_H
#define TEST_ATTACH_STEPS_H

#include <sys/types.h>

/** @event runs in the helper before its @step-th ptrace call, from 1. */
void step_set(unsigned step, void (*event)(void *arg), void *arg);
/** No event any more. */
void step_clear(void);
/** The helper that reached the step of the last step_set(), or 0. */
pid_t step_reached(void);

#endif

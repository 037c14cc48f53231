// SPDX-License-Identifier: MIT
/*
 * At every single step of an attach something happens: the caller is killed,
 * the target is killed, stopped, sent a signal, or calls exec.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attach.h"
#include "lib/attach_steps.h"
#include "lib/attach_targets.h"
#include "lib/expect.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_result(const struct attach_result *r)
{
	close(r->uffd);
	close(r->pidfd);
	close(r->mem_fd);
}

/* One attach by a method: what it gave. */
static struct outcome attach_once(pid_t pid, enum attach_method method)
{
	/* One attempt, and no hurry. */
	struct attach_options opts = {
		.pid = pid,
		.method = method,
		.stop_deadline_ms = 5000,
		.retry_ms = 1,
	};
	struct attach_result r;
	struct attach *a;
	struct outcome o = outcome_of(attach_open(&a, &opts));

	if (o.err)
		return o;
	o = outcome_of(attach_take_uffd(a, &r));
	if (!o.err)
		close_result(&r);
	attach_close(a);
	return o;
}

static void expect_let_go(pid_t pid)
{
	struct prey_census c;

	for (unsigned i = 0; i < 1000; i++) {
		prey_census(pid, &c, false);
		if (!c.tracer)
			break;
		usleep(1000);
	}
	assert_int_equal(c.tracer, 0);
	assert_int_equal(c.userfaultfds, 0);
	assert_int_equal(c.pending, 0);
}

typedef void (*case_fn)(unsigned step, enum attach_method method);

/* Until an attach has fewer steps than that. */
static void at_every_step(case_fn fn)
{
	for (int m = ATTACH_SYSCALL; m <= ATTACH_DEVICE; m++) {
		unsigned step = 0;

		do
			fn(++step, (enum attach_method)m);
		while (step_reached() && step < 500);
		step_clear();
		/* 4 threads, two or seven calls of four ptrace calls each */
		assert_in_range(step, 4 * 3 + 8, 499);
		print_message("%u steps\n", step - 1);
	}
}

/* ---- the caller is killed ---- */

static void kill_caller(void *arg)
{
	kill(getppid(), SIGKILL);
	usleep(300);
}

static struct attach_prey prey;

static void kill_caller_at(unsigned step, enum attach_method method)
{
	pid_t caller;
	int status;

	step_set(step, kill_caller, NULL);
	caller = fork();
	if (!caller) {
		struct outcome o = attach_once(prey.pid, method);

		if (o.err)
			fprintf(stderr, "%s\n", o.text);
		_exit(o.err ? 1 : 0);
	}
	assert_int_equal(waitpid(caller, &status, 0), caller);
	if (step_reached()) {
		/* It is our child now, and does not stop half-way. */
		assert_true(WIFSIGNALED(status));
		if (waitpid(step_reached(), &status, __WALL) < 0) {
			/* The caller, in its own wait for it, had it yet. */
			assert_int_equal(errno, ECHILD);
			status = 0;
		}
	}
	assert_int_equal(status, 0);
	expect_let_go(prey.pid);
	assert_true(board_alive(prey.board, 5));
	assert_int_equal(prey.board->trouble, 0);
}

static void target_lives_when_the_caller_is_killed(void **state)
{
	struct prey_census before, after;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prey_start(&prey, body_spin_5);
	prey_census(prey.pid, &before, false);
	at_every_step(kill_caller_at);
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	prey_census(prey.pid, &after, false);
	expect_census(&before, &after);
	prey_stop(&prey);
}

/* ---- the target is killed ---- */

static void kill_target(void *arg)
{
	kill(*(pid_t *)arg, SIGKILL);
	usleep(500);
}

static void kill_target_at(unsigned step, enum attach_method method)
{
	struct outcome o;

	prey_start(&prey, body_spin_5);
	step_set(step, kill_target, &prey.pid);
	o = attach_once(prey.pid, method);
	if (o.err)
		expect_outcome(&o, -ESRCH, SNAP_FAILURE_GONE, "process");
	prey_stop(&prey);
}

static void target_that_is_killed_is_gone(void **state)
{
	at_every_step(kill_target_at);
}

/* ---- the target is stopped ---- */

static void stop_target(void *arg)
{
	kill(*(pid_t *)arg, SIGSTOP);
}

static void stop_target_at(unsigned step, enum attach_method method)
{
	struct outcome o;
	siginfo_t info;

	step_set(step, stop_target, &prey.pid);
	o = attach_once(prey.pid, method);
	expect_outcome(&o, 0, SNAP_FAILURE_NONE, "");
	if (step_reached())
		assert_int_equal(waitid(P_PID, (id_t)prey.pid, &info, WSTOPPED),
				 0);
	kill(prey.pid, SIGCONT);
	assert_true(board_alive(prey.board, 5));
	assert_int_equal(prey.board->trouble, 0);
}

static void job_control_stop_is_not_lost(void **state)
{
	prey_start(&prey, body_spin_5);
	at_every_step(stop_target_at);
	expect_let_go(prey.pid);
	prey_stop(&prey);
}

/* ---- the target gets a signal ---- */

static struct board *board;

static void on_usr1(int sig)
{
	atomic_fetch_add(&board->signals, 1);
}

static void body_signals(struct board *b)
{
	board = b;
	signal(SIGUSR1, on_usr1);
	body_spin_5(b);
}

static void signal_target(void *arg)
{
	kill(*(pid_t *)arg, SIGUSR1);
}

static void signal_target_at(unsigned step, enum attach_method method)
{
	uint32_t before = prey.board->signals;
	struct outcome o;

	step_set(step, signal_target, &prey.pid);
	o = attach_once(prey.pid, method);
	expect_outcome(&o, 0, SNAP_FAILURE_NONE, "");
	if (step_reached())
		assert_true(board_wait(&prey.board->signals, before + 1));
	assert_int_equal(prey.board->signals,
			 before + (step_reached() ? 1 : 0));
	assert_int_equal(prey.board->trouble, 0);
}

static void signal_is_delivered_once(void **state)
{
	prey_start(&prey, body_signals);
	at_every_step(signal_target_at);
	assert_true(board_alive(prey.board, 5));
	prey_stop(&prey);
}

/* ---- the target calls exec ---- */

static void *exec_when_told(void *arg)
{
	struct board *b = arg;

	while (!atomic_load(&b->go))
		usleep(50);
	execl("/bin/sleep", "sleep", "1000", NULL);
	return NULL;
}

static void body_exec(struct board *b)
{
	pthread_t t;

	pthread_create(&t, NULL, exec_when_told, b);
	start_spinner(b, 1);
	start_spinner(b, 2);
	atomic_store(&b->ready, 1);
	for (;;)
		pause();
}

static void tell_exec(void *arg)
{
	struct board *b = arg;

	atomic_store(&b->go, 1);
	usleep(2000);
}

static void expect_program(pid_t pid, const char *name)
{
	char path[64], line[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	for (unsigned i = 0; i < 5000 && strncmp(line, name, 5) != 0; i++) {
		FILE *f = fopen(path, "r");

		if (!f || !fgets(line, sizeof(line), f))
			line[0] = '\0';
		if (f)
			fclose(f);
		usleep(1000);
	}
	assert_memory_equal(line, name, 5);
}

static void exec_target_at(unsigned step, enum attach_method method)
{
	struct outcome o;

	prey_start(&prey, body_exec);
	step_set(step, tell_exec, prey.board);
	o = attach_once(prey.pid, method);
	if (o.err)
		expect_outcome(&o, -ESRCH, SNAP_FAILURE_GONE, "exec");
	if (step_reached()) {
		expect_program(prey.pid, "sleep");
		expect_let_go(prey.pid);
		assert_int_equal(prey_status(prey.pid, "Threads", 10), 1);
	}
	prey_stop(&prey);
}

static void exec_in_the_window_is_found_out_and_succeeds(void **state)
{
	at_every_step(exec_target_at);
}

/* ---- the helper is killed, where that is harmless ---- */

static void helper_killed_in_the_pause_lets_go(void **state)
{
	struct attach_options opts = {0};
	struct attach *a;
	pid_t helper;

	step_clear();
	prey_start(&prey, body_spin_5);
	opts.pid = prey.pid;
	assert_int_equal(attach_open(&a, &opts), 0);
	assert_int_equal(attach_stop(a), 0);
	helper = (pid_t)prey_status(prey.pid, "TracerPid", 10);
	assert_true(helper > 0 && helper != getpid());
	kill(helper, SIGKILL);
	assert_true(board_alive(prey.board, 5));
	expect_error(attach_resume(a), -ESRCH, SNAP_FAILURE_INTERNAL,
		     "ran on too early");
	assert_int_equal(attach_stop(a), 0);
	assert_int_equal(attach_resume(a), 0);
	attach_close(a);
	prey_stop(&prey);
}

static void caller_killed_in_the_pause_lets_go(void **state)
{
	struct attach_options opts = {0};
	pid_t caller;

	prey_start(&prey, body_spin_5);
	opts.pid = prey.pid;
	caller = fork();
	if (!caller) {
		struct attach *a;

		if (attach_open(&a, &opts) || attach_stop(a))
			_exit(1);
		raise(SIGKILL);
	}
	waitpid(caller, NULL, 0);
	assert_true(board_alive(prey.board, 5));
	expect_let_go(prey.pid);
	prey_stop(&prey);
}

static void helper_is_not_seen_by_wait(void **state)
{
	struct attach_options opts = {0};
	struct attach *a;

	prey_start(&prey, body_spin_1);
	opts.pid = prey.pid;
	assert_int_equal(attach_open(&a, &opts), 0);
	/* the prey is the only child */
	kill(prey.pid, SIGKILL);
	assert_int_equal(waitpid(-1, NULL, 0), prey.pid);
	assert_int_equal(waitpid(-1, NULL, 0), -1);
	assert_int_equal(errno, ECHILD);
	attach_close(a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(target_lives_when_the_caller_is_killed),
		cmocka_unit_test(target_that_is_killed_is_gone),
		cmocka_unit_test(job_control_stop_is_not_lost),
		cmocka_unit_test(signal_is_delivered_once),
		cmocka_unit_test(exec_in_the_window_is_found_out_and_succeeds),
		cmocka_unit_test(helper_killed_in_the_pause_lets_go),
		cmocka_unit_test(caller_killed_in_the_pause_lets_go),
		cmocka_unit_test(helper_is_not_seen_by_wait),
	};

	if (!PREY_IS_PLAIN)
		return prey_skip();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

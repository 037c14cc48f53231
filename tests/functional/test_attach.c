// SPDX-License-Identifier: MIT
/* Attaching: the plain cases, what is refused, and how a stop ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attach.h"
#include "lib/attach_targets.h"
#include "lib/expect.h"
#include "lib/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct attach *open_ok(pid_t pid, enum attach_method method)
{
	struct attach_options o = {.pid = pid, .method = method};
	struct attach *a;
	int err = attach_open(&a, &o);

	if (err)
		fail_msg("attach_open: %d %s", err, snap_error_message());
	return a;
}

static void take_ok(struct attach *a, struct attach_result *r)
{
	int err = attach_take_uffd(a, r);

	if (err)
		fail_msg("attach_take_uffd: %d %s", err, snap_error_message());
}

static void close_result(const struct attach_result *r)
{
	close(r->uffd);
	close(r->pidfd);
	close(r->mem_fd);
}

/* Not taken into use yet, and it belongs to the target's memory, not ours. */
static void expect_fresh_uffd(const struct attach_result *r)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {
		.range = {(uintptr_t)r & ~(uintptr_t)4095, 4096},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	struct pollfd p = {.fd = r->pidfd, .events = POLLIN};

	assert_true(fcntl(r->uffd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(r->uffd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(ioctl(r->uffd, UFFDIO_REGISTER, &reg), -1);
	assert_int_equal(errno, EINVAL); /* before UFFDIO_API */
	assert_int_equal(ioctl(r->uffd, UFFDIO_API, &api), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
}

static void round_trip(enum attach_method method, target_body body,
		       unsigned lanes)
{
	struct proc_census ours_before, ours_after;
	struct prey_census before, after;
	struct attach_prey p;
	struct attach_result r;
	struct attach *a;

	prey_start(&p, body);
	proc_census(&ours_before);
	prey_census(p.pid, &before, false);
	a = open_ok(p.pid, method);
	take_ok(a, &r);
	assert_int_equal(r.method, method);
	assert_int_equal(r.threads, lanes);
	assert_true(r.stopped_us >= r.inject_us && r.inject_us > 0);
	print_message("stopped %u us, inject %u us, %u threads\n",
		      (unsigned)r.stopped_us, (unsigned)r.inject_us, r.threads);
	expect_fresh_uffd(&r);
	attach_close(a);
	prey_census(p.pid, &after, false);
	expect_census(&before, &after);
	assert_true(board_alive(p.board, lanes));
	assert_int_equal(p.board->trouble, 0);
	close_result(&r);
	proc_census(&ours_after);
	assert_int_equal(ours_after.fds, ours_before.fds);
	prey_stop(&p);
}

static void uffd_is_made_by_the_system_call(void **state)
{
	round_trip(ATTACH_SYSCALL, body_spin_1, 1);
	round_trip(ATTACH_SYSCALL, body_spin_5, 5);
}

static void uffd_is_made_by_the_device(void **state)
{
	round_trip(ATTACH_DEVICE, body_spin_1, 1);
	round_trip(ATTACH_DEVICE, body_spin_5, 5);
}

static void be_nobody(struct board *b)
{
	/* The change of user takes both away. */
	if (setgid(65534) || setuid(65534) || prctl(PR_SET_DUMPABLE, 1) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL))
		_exit(1);
	body_spin_5(b);
}

static void device_is_chosen_for_another_users_target(void **state)
{
	struct attach_prey p;
	struct attach_result r;
	struct attach *a;

	if (getuid() != 0)
		skip();
	prey_start(&p, be_nobody);
	a = open_ok(p.pid, ATTACH_AUTO);
	take_ok(a, &r);
	assert_int_equal(r.method, ATTACH_DEVICE);
	attach_close(a);
	close_result(&r);
	assert_true(board_alive(p.board, 5));
	prey_stop(&p);
}

static void registers_and_memory_are_as_before(void **state)
{
	struct user_regs_struct regs_before, regs_after;
	struct prey_census before, after;
	struct attach_prey p;
	struct attach_result r;
	struct attach *a;

	prey_start(&p, body_pause);
	for (int m = ATTACH_SYSCALL; m <= ATTACH_DEVICE; m++) {
		prey_wait_asleep(p.pid, p.pid);
		prey_census(p.pid, &before, true);
		prey_registers(p.pid, &regs_before);
		prey_wait_asleep(p.pid, p.pid);
		a = open_ok(p.pid, (enum attach_method)m);
		take_ok(a, &r);
		attach_close(a);
		close_result(&r);
		prey_wait_asleep(p.pid, p.pid);
		prey_registers(p.pid, &regs_after);
		prey_census(p.pid, &after, true);
		expect_census(&before, &after);
		assert_memory_equal(&regs_before, &regs_after,
				    sizeof(regs_before));
	}
	prey_stop(&p);
}

/* ---- stop and resume ---- */

static uint64_t sum_lanes(struct board *b)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < BOARD_LANES; i++)
		sum += b->lane[i];
	return sum;
}

static void no_thread_runs_while_stopped(void **state)
{
	struct attach_prey p;
	struct attach *a;

	prey_start(&p, body_spin_5);
	a = open_ok(p.pid, ATTACH_AUTO);
	for (unsigned i = 0; i < 5; i++) {
		uint64_t at;

		assert_int_equal(attach_stop(a), 0);
		at = sum_lanes(p.board);
		usleep(20000);
		assert_int_equal(sum_lanes(p.board), at);
		expect_error(attach_stop(a), -EALREADY, SNAP_FAILURE_USAGE,
			     "stopped already");
		assert_int_equal(attach_resume(a), 0);
		assert_true(board_alive(p.board, 5));
		expect_error(attach_resume(a), -EALREADY, SNAP_FAILURE_USAGE,
			     "not stopped");
	}
	attach_close(a);
	assert_int_equal(p.board->trouble, 0);
	prey_stop(&p);
}

static void close_lets_a_stopped_target_run(void **state)
{
	struct attach_prey p;
	struct attach *a;

	prey_start(&p, body_spin_5);
	a = open_ok(p.pid, ATTACH_AUTO);
	assert_int_equal(attach_stop(a), 0);
	attach_close(a);
	assert_true(board_alive(p.board, 5));
	assert_int_equal(prey_status(p.pid, "TracerPid", 10), 0);
	prey_stop(&p);
}

static void pause_that_takes_too_long_is_ended_and_told(void **state)
{
	struct attach_options o = {.stop_limit_ms = 50};
	struct attach_prey p;
	struct attach *a;

	prey_start(&p, body_spin_5);
	o.pid = p.pid;
	assert_int_equal(attach_open(&a, &o), 0);
	assert_int_equal(attach_stop(a), 0);
	usleep(100000);
	assert_true(board_alive(p.board, 5));
	expect_error(attach_resume(a), -ETIMEDOUT, SNAP_FAILURE_INTERNAL,
		     "was let go after 50 ms");
	/* and the handle is as good as new */
	assert_int_equal(attach_stop(a), 0);
	assert_int_equal(attach_resume(a), 0);
	attach_close(a);
	prey_stop(&p);
}

static void job_control_stop_is_kept(void **state)
{
	struct attach_prey p;
	struct attach_result r;
	struct attach *a;
	uint64_t at;
	int status;

	prey_start(&p, body_spin_5);
	kill(p.pid, SIGSTOP);
	assert_int_equal(waitpid(p.pid, &status, WUNTRACED), p.pid);
	a = open_ok(p.pid, ATTACH_AUTO);
	take_ok(a, &r);
	assert_int_equal(attach_stop(a), 0);
	assert_int_equal(attach_resume(a), 0);
	attach_close(a);
	close_result(&r);
	at = sum_lanes(p.board);
	usleep(20000);
	assert_int_equal(sum_lanes(p.board), at);
	kill(p.pid, SIGCONT);
	assert_true(board_alive(p.board, 5));
	prey_stop(&p);
}

/* ---- refusals ---- */

static struct outcome open_outcome(pid_t pid)
{
	struct attach_options o = {.pid = pid};
	struct attach *a = NULL;
	struct outcome out = outcome_of(attach_open(&a, &o));

	attach_close(a);
	return out;
}

static void expect_refused(pid_t pid, int err, const char *words)
{
	struct proc_census before, after;
	struct outcome o;

	proc_census(&before);
	o = open_outcome(pid);
	expect_outcome(&o, err, SNAP_FAILURE_REFUSED, words);
	proc_census(&after);
	assert_int_equal(after.fds, before.fds);
}

static void nonsense_numbers_are_refused(void **state)
{
	expect_refused(0, -EINVAL, "0 is not");
	expect_refused(-5, -EINVAL, "-5 is not");
}

static void own_process_is_refused(void **state)
{
	expect_refused(getpid(), -EINVAL, "this program itself");
}

static void kernel_thread_is_refused(void **state)
{
	if (prey_status(2, "Kthread", 10) != 1) {
		print_message("process 2 is no kernel thread here\n");
		skip();
	}
	expect_refused(2, -ENOTSUP, "process 2|kernel thread");
}

static void zombie_is_refused(void **state)
{
	pid_t pid = fork();
	siginfo_t info;

	if (!pid)
		_exit(0);
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	expect_refused(pid, -ESRCH, "zombie");
	waitpid(pid, NULL, 0);
}

static void process_that_is_gone_is_told_so(void **state)
{
	pid_t pid = fork();
	struct outcome o;

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	o = open_outcome(pid);
	expect_outcome(&o, -ESRCH, SNAP_FAILURE_GONE, "does not exist");
}

static void thread_id_is_refused(void **state)
{
	struct attach_prey p;
	char path[64];
	pid_t tid = 0;

	prey_start(&p, body_spin_5);
	for (tid = p.pid + 1; tid < p.pid + 1000; tid++) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d", p.pid, tid);
		if (!access(path, F_OK))
			break;
	}
	expect_refused(tid, -EINVAL, "is a thread");
	prey_stop(&p);
}

static void tracer_is_named(void **state)
{
	struct attach_prey p;
	struct attach *a;
	char words[64];
	int status;

	prey_start(&p, body_spin_1);
	a = open_ok(p.pid, ATTACH_AUTO);
	assert_int_equal(ptrace(PTRACE_SEIZE, p.pid, NULL, NULL), 0);
	snprintf(words, sizeof(words), "traced by process %d", getpid());
	expect_refused(p.pid, -EBUSY, words);
	/* also when it came after the first look */
	expect_error(attach_stop(a), -EBUSY, SNAP_FAILURE_REFUSED, words);
	assert_true(board_alive(p.board, 1));
	ptrace(PTRACE_INTERRUPT, p.pid, NULL, NULL);
	waitpid(p.pid, &status, __WALL);
	ptrace(PTRACE_DETACH, p.pid, NULL, NULL);
	assert_int_equal(attach_stop(a), 0);
	attach_close(a);
	prey_stop(&p);
}

static struct outcome attach_as_nobody(void *arg)
{
	return open_outcome(*(pid_t *)arg);
}

static void no_right_to_trace_is_refused(void **state)
{
	struct attach_prey p;
	struct outcome o;

	prey_start(&p, body_spin_1);
	o = run_as_nobody(attach_as_nobody, &p.pid, 0);
	expect_outcome(&o, -EPERM, SNAP_FAILURE_REFUSED,
		       "no right|CAP_SYS_PTRACE");
	assert_true(board_alive(p.board, 1));
	prey_stop(&p);
}

static struct outcome take_as_nobody(void *arg)
{
	struct attach_options opts = {.pid = *(pid_t *)arg};
	struct attach_result r;
	struct attach *a;
	struct outcome o = outcome_of(attach_open(&a, &opts));

	if (o.err)
		return o;
	o = outcome_of(attach_take_uffd(a, &r));
	attach_close(a);
	return o;
}

static bool everybody_may(void)
{
	FILE *f = fopen("/proc/sys/vm/unprivileged_userfaultfd", "r");
	int c = f ? fgetc(f) : '0';

	if (f)
		fclose(f);
	return c == '1' || !access("/dev/userfaultfd", R_OK | W_OK);
}

static void no_right_to_a_userfaultfd_is_refused(void **state)
{
	struct attach_prey p;
	struct outcome o;

	prey_start(&p, be_nobody);
	o = run_as_nobody(take_as_nobody, &p.pid, 0);
	if (everybody_may() && !o.err)
		skip();
	expect_outcome(&o, -EPERM, SNAP_FAILURE_REFUSED,
		       "/dev/userfaultfd|CAP_SYS_PTRACE|unprivileged");
	assert_true(board_alive(p.board, 5));
	prey_stop(&p);
}

/* A whole 32-bit program: an ELF header, one segment, and pause() by int $0x80
 * in a loop. */
static const unsigned char program32[] = {
	0x7f,
	'E',
	'L',
	'F',
	1,
	1,
	1,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	2,
	0,
	3,
	0,
	1,
	0,
	0,
	0,
	0x54,
	0x80,
	0x04,
	0x08,
	52,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	52,
	0,
	32,
	0,
	1,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	1,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0x80,
	0x04,
	0x08,
	0,
	0x80,
	0x04,
	0x08,
	93,
	0,
	0,
	0,
	93,
	0,
	0,
	0,
	5,
	0,
	0,
	0,
	0,
	0x10,
	0,
	0,
	/* 1: mov $29, %eax; int $0x80; jmp 1b */
	0xb8,
	29,
	0,
	0,
	0,
	0xcd,
	0x80,
	0xeb,
	0xf7,
};

static void program_of_32_bits_is_refused(void **state)
{
	int fd = memfd_create("program32", 0), status;
	char *none[] = {NULL};
	pid_t pid;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, program32, sizeof(program32)),
			 sizeof(program32));
	pid = fork();
	if (!pid) {
		fexecve(fd, none, none);
		_exit(77);
	}
	close(fd);
	usleep(50000);
	if (waitpid(pid, &status, WNOHANG) == pid) {
		print_message("no 32-bit programs on this kernel\n");
		skip();
	}
	expect_refused(pid, -ENOTSUP, "32-bit");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void target_that_ends_before_the_take_is_gone(void **state)
{
	struct attach_prey p;
	struct attach_result r;
	struct attach *a;

	prey_start(&p, body_spin_1);
	a = open_ok(p.pid, ATTACH_AUTO);
	prey_stop(&p);
	expect_error(attach_take_uffd(a, &r), -ESRCH, SNAP_FAILURE_GONE,
		     "has ended");
	expect_error(attach_stop(a), -ESRCH, SNAP_FAILURE_GONE, "has ended");
	attach_close(a);
}

static void target_killed_in_the_pause_can_end(void **state)
{
	struct attach_prey p;
	struct attach *a;

	prey_start(&p, body_spin_5);
	a = open_ok(p.pid, ATTACH_AUTO);
	assert_int_equal(attach_stop(a), 0);
	kill(p.pid, SIGKILL);
	usleep(10000);
	attach_resume(a);
	attach_close(a);
	prey_stop(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uffd_is_made_by_the_system_call),
		cmocka_unit_test(uffd_is_made_by_the_device),
		cmocka_unit_test(device_is_chosen_for_another_users_target),
		cmocka_unit_test(registers_and_memory_are_as_before),
		cmocka_unit_test(no_thread_runs_while_stopped),
		cmocka_unit_test(close_lets_a_stopped_target_run),
		cmocka_unit_test(pause_that_takes_too_long_is_ended_and_told),
		cmocka_unit_test(job_control_stop_is_kept),
		cmocka_unit_test(nonsense_numbers_are_refused),
		cmocka_unit_test(own_process_is_refused),
		cmocka_unit_test(kernel_thread_is_refused),
		cmocka_unit_test(zombie_is_refused),
		cmocka_unit_test(process_that_is_gone_is_told_so),
		cmocka_unit_test(thread_id_is_refused),
		cmocka_unit_test(tracer_is_named),
		cmocka_unit_test(no_right_to_trace_is_refused),
		cmocka_unit_test(no_right_to_a_userfaultfd_is_refused),
		cmocka_unit_test(program_of_32_bits_is_refused),
		cmocka_unit_test(target_that_ends_before_the_take_is_gone),
		cmocka_unit_test(target_killed_in_the_pause_can_end),
	};

	if (!PREY_IS_PLAIN)
		return prey_skip();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

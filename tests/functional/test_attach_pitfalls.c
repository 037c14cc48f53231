// SPDX-License-Identifier: MIT
/* Threads and processes that an attach could break: one test for each way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attach.h"
#include "lib/attach_targets.h"
#include "lib/expect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DISPATCH_ON 1	/* PR_SYS_DISPATCH_ON */
#define SET_DISPATCH 59 /* PR_SET_SYSCALL_USER_DISPATCH, Linux 5.11 */
#define CGROUPS "/sys/fs/cgroup"

static struct outcome attach_with(const struct attach_options *opts,
				  struct attach_result *r)
{
	struct attach *a;
	struct outcome o = outcome_of(attach_open(&a, opts));

	if (o.err)
		return o;
	o = outcome_of(attach_take_uffd(a, r));
	if (!o.err) {
		close(r->uffd);
		close(r->pidfd);
		close(r->mem_fd);
	}
	attach_close(a);
	return o;
}

static void attach_ok(pid_t pid, enum attach_method method,
		      struct attach_result *r)
{
	struct outcome o = attach_with(
		&(struct attach_options){.pid = pid, .method = method}, r);

	expect_outcome(&o, 0, SNAP_FAILURE_NONE, "");
}

static void attach_both_ways(const struct attach_prey *p, unsigned threads)
{
	struct prey_census before, after;
	struct attach_result r;

	prey_census(p->pid, &before, false);
	for (int m = ATTACH_SYSCALL; m <= ATTACH_DEVICE; m++) {
		attach_ok(p->pid, (enum attach_method)m, &r);
		assert_int_equal(r.threads, threads);
	}
	prey_census(p->pid, &after, false);
	expect_census(&before, &after);
}

static struct board *board;

static void on_signal(int sig)
{
	atomic_fetch_add(&board->signals, 1);
}

/* ---- restartable sequences ---- */

/* A section without an end: only being aborted leads out of it, which counts
 * in lane 0 and enters it again. */
static void body_rseq(struct board *b)
{
	char *area = (char *)__builtin_thread_pointer() + __rseq_offset;

	board = b;
	signal(SIGUSR1, on_signal);
	atomic_store(&b->ready, 1);
	__asm__ volatile(".pushsection __rseq_cs, \"aw\"\n\t"
			 ".balign 32\n"
			 "7:\n\t"
			 ".long 0, 0\n\t"
			 ".quad 1f, 2f - 1f, 3f\n\t"
			 ".popsection\n"
			 "4:\n\t"
			 "lock incq (%[lane])\n\t"
			 "leaq 7b(%%rip), %%rax\n\t"
			 "movq %%rax, 8(%[area])\n"
			 "1:\n\t"
			 "jmp 1b\n"
			 "2:\n\t"
			 /* the signature, inside an instruction */
			 ".byte 0x0f, 0xb9, 0x3d\n\t"
			 ".long 0x53053053\n"
			 "3:\n\t"
			 "jmp 4b\n\t"
			 :
			 : [lane] "r"(&b->lane[0]), [area] "r"(area)
			 : "rax", "memory", "cc");
}

static void restartable_sequence_is_aborted(void **state)
{
	struct attach_result r;
	struct attach_prey p;

	if (!__rseq_size) {
		print_message("the C library has registered no rseq area\n");
		skip();
	}
	prey_start(&p, body_rseq);
	for (uint32_t i = 1; i <= 20; i++) {
		attach_ok(p.pid, i & 1 ? ATTACH_SYSCALL : ATTACH_DEVICE, &r);
		/* A handler aborts the section, if it is one still. */
		usleep(1000);
		uint64_t at = p.board->lane[0];

		kill(p.pid, SIGUSR1);
		assert_true(board_wait(&p.board->signals, i));
		for (unsigned k = 0; p.board->lane[0] == at; k++) {
			assert_true(k < 2000);
			usleep(1000);
		}
	}
	prey_stop(&p);
}

/* ---- seccomp ---- */

static void filter_all(uint32_t otherwise, const int *allowed, unsigned n)
{
	struct sock_filter code[16] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog prog = {.filter = code};
	unsigned at = 1;

	for (unsigned i = 0; i < n; i++) {
		code[at++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[i], 0, 1);
		code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							  SECCOMP_RET_ALLOW);
	}
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
	prog.len = (unsigned short)at;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		_exit(3);
}

static void allow_all(void)
{
	filter_all(SECCOMP_RET_ALLOW, NULL, 0);
}

/* Anything but a nap kills the whole process. */
static void body_seccomp(struct board *b)
{
	static const int naps[] = {SYS_clock_nanosleep, SYS_nanosleep,
				   SYS_restart_syscall};

	filter_all(SECCOMP_RET_KILL_PROCESS, naps, 3);
	atomic_store(&b->ready, 1);
	while (!atomic_load(&b->go)) {
		atomic_fetch_add(&b->lane[0], 1);
		usleep(50);
	}
	syscall(SYS_getppid);
}

static void seccomp_filter_is_suspended_and_comes_back(void **state)
{
	struct attach_prey p;
	siginfo_t info = {0};

	if (geteuid() != 0)
		skip();
	prey_start(&p, body_seccomp);
	for (unsigned i = 0; i < 5; i++)
		attach_both_ways(&p, 1);
	assert_true(board_alive(p.board, 1));
	atomic_store(&p.board->go, 1);
	waitid(P_PID, (id_t)p.pid, &info, WEXITED | WNOWAIT);
	assert_int_equal(info.si_status, SIGSYS);
	prey_stop(&p);
}

static void body_nobody_seccomp(struct board *b)
{
	if (setgid(65534) || setuid(65534) || prctl(PR_SET_DUMPABLE, 1) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL))
		_exit(1);
	body_seccomp(b);
}

static struct outcome attach_from_outside(void *arg)
{
	struct attach_options opts = {.pid = *(pid_t *)arg};
	struct attach_result r;

	return attach_with(&opts, &r);
}

static void seccomp_filter_that_may_not_be_suspended_is_refused(void **state)
{
	struct attach_prey p;
	struct outcome o;

	if (geteuid() != 0)
		skip();
	prey_start(&p, body_nobody_seccomp);
	o = run_as_nobody(attach_from_outside, &p.pid, 0);
	expect_outcome(&o, -EPERM, SNAP_FAILURE_REFUSED,
		       "seccomp|CAP_SYS_ADMIN");
	assert_true(board_alive(p.board, 1));
	prey_stop(&p);
}

/* ---- syscall user dispatch ---- */

static volatile char selector;

static void on_sigsys(int sig)
{
	selector = 0;
	atomic_fetch_add(&board->signals, 1);
}

static void body_dispatch(struct board *b)
{
	board = b;
	signal(SIGSYS, on_sigsys);
	if (prctl(SET_DISPATCH, DISPATCH_ON, 0, 0, &selector)) {
		atomic_store(&b->number, -1);
		atomic_store(&b->ready, 1);
		pause();
	}
	atomic_store(&b->ready, 1);
	selector = 1;
	while (!atomic_load(&b->go))
		atomic_fetch_add(&b->lane[0], 1);
	syscall(SYS_getppid);
	atomic_store(&b->done, 1);
	pause();
}

static void syscall_user_dispatch_is_suspended_and_comes_back(void **state)
{
	struct attach_prey p;

	prey_start(&p, body_dispatch);
	if (p.board->number) {
		prey_stop(&p);
		print_message("no syscall user dispatch here\n");
		skip();
	}
	for (unsigned i = 0; i < 5; i++)
		attach_both_ways(&p, 1);
	assert_true(board_alive(p.board, 1));
	assert_int_equal(p.board->signals, 0);
	atomic_store(&p.board->go, 1);
	assert_true(board_wait(&p.board->done, 1));
	assert_int_equal(p.board->signals, 1);
	prey_stop(&p);
}

/* ---- kernel threads among the process's own ---- */

static int start_io_worker(int fd)
{
	static char buf[8];
	struct io_uring_params par = {0};
	int ring = (int)syscall(SYS_io_uring_setup, 4, &par);
	struct io_uring_sqe *sqe;
	unsigned *sq;

	if (ring < 0)
		return -1;
	sq = mmap(NULL, par.sq_off.array + 4 * sizeof(unsigned),
		  PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	sqe = mmap(NULL, 4 * sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED,
		   ring, IORING_OFF_SQES);
	*sqe = (struct io_uring_sqe){
		.opcode = IORING_OP_READ,
		.flags = IOSQE_ASYNC,
		.fd = fd,
		.addr = (uintptr_t)buf,
		.len = 1,
	};
	sq[par.sq_off.array / sizeof(unsigned)] = 0;
	atomic_store(
		(_Atomic unsigned *)&sq[par.sq_off.tail / sizeof(unsigned)], 1);
	return syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) == 1 ? ring
									: -1;
}

/* The worker has no filter, so that it would be preferred were it a thread. */
static void body_io_worker(struct board *b)
{
	int ends[2], ring;

	if (pipe(ends))
		_exit(1);
	ring = start_io_worker(ends[0]);
	if (ring < 0)
		atomic_store(&b->number, -1);
	usleep(20000);
	allow_all();
	atomic_store(&b->ready, 1);
	while (!atomic_load(&b->go))
		usleep(100);
	if (write(ends[1], "x", 1) != 1)
		_exit(1);
	syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL,
		0);
	atomic_store(&b->done, 1);
	pause();
}

static unsigned count_named(pid_t pid, const char *prefix)
{
	char path[400], name[32];
	struct dirent *e;
	unsigned n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", pid,
			 e->d_name);
		f = fopen(path, "r");
		if (f && fgets(name, sizeof(name), f))
			n += !strncmp(name, prefix, strlen(prefix));
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return n;
}

static void io_worker_is_never_used(void **state)
{
	struct attach_prey p;

	if (geteuid() != 0)
		skip();
	prey_start(&p, body_io_worker);
	if (p.board->number || count_named(p.pid, "iou-wrk") != 1) {
		prey_stop(&p);
		print_message("no io_uring worker here\n");
		skip();
	}
	for (unsigned i = 0; i < 5; i++)
		attach_both_ways(&p, 2);
	atomic_store(&p.board->go, 1);
	assert_true(board_wait(&p.board->done, 1));
	prey_stop(&p);
}

/* ---- threads that do not stop ---- */

static void body_vfork(struct board *b)
{
	pid_t child;

	atomic_store(&b->ready, 1);
	while (!atomic_load(&b->go))
		usleep(50);
	child = vfork();
	if (!child) {
		/* No function of the C library here but this one. */
		struct timespec half = {.tv_nsec = 500000000};

		syscall(SYS_nanosleep, &half, NULL);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	atomic_store(&b->done, 1);
	pause();
}

static void vfork_ends_the_wait_and_an_attempt_succeeds(void **state)
{
	struct attach_options opts = {.stop_deadline_ms = 30, .retry_ms = 1};
	struct attach_result r;
	struct attach_prey p;
	struct outcome o;

	prey_start(&p, body_vfork);
	opts.pid = p.pid;
	atomic_store(&p.board->go, 1);
	usleep(20000);
	o = attach_with(&opts, &r);
	expect_outcome(&o, -ETIMEDOUT, SNAP_FAILURE_REFUSED, "vfork|30 ms");
	assert_false(p.board->done);
	assert_int_equal(prey_status(p.pid, "TracerPid", 10), 0);
	opts.retry_ms = 3000;
	o = attach_with(&opts, &r);
	expect_outcome(&o, 0, SNAP_FAILURE_NONE, "");
	assert_true(r.attempts > 1);
	assert_true(board_wait(&p.board->done, 1));
	prey_stop(&p);
}

/* A cgroup of our own that freezes, "" when there is none. */
static void make_cgroup(char *path, size_t size)
{
	static const char *const roots[] = {CGROUPS, CGROUPS "/unified"};
	char file[160];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, size, "%s/snap-test-%d", roots[i], getpid());
		if (mkdir(path, 0700))
			continue;
		snprintf(file, sizeof(file), "%s/cgroup.freeze", path);
		if (!access(file, W_OK))
			return;
		rmdir(path);
	}
	path[0] = '\0';
}

static void write_cgroup(const char *cgroup, const char *file, int value)
{
	char path[200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", cgroup, file);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%d", value);
	assert_int_equal(fclose(f), 0);
}

static void frozen_target_is_refused_and_thaws(void **state)
{
	struct attach_options opts = {.retry_ms = 1};
	struct prey_census before, after;
	struct attach_result r;
	struct attach_prey p;
	char cgroup[128];
	struct outcome o;

	make_cgroup(cgroup, sizeof(cgroup));
	if (!cgroup[0]) {
		print_message("no cgroup that freezes\n");
		skip();
	}
	prey_start(&p, body_spin_5);
	opts.pid = p.pid;
	write_cgroup(cgroup, "cgroup.procs", p.pid);
	prey_census(p.pid, &before, false);
	write_cgroup(cgroup, "cgroup.freeze", 1);
	usleep(20000);
	o = attach_with(&opts, &r);
	write_cgroup(cgroup, "cgroup.freeze", 0);
	expect_outcome(&o, -ETIMEDOUT, SNAP_FAILURE_REFUSED, "process");
	assert_true(board_alive(p.board, 5));
	attach_ok(p.pid, ATTACH_AUTO, &r);
	prey_census(p.pid, &after, false);
	expect_census(&before, &after);
	assert_int_equal(p.board->trouble, 0);
	prey_stop(&p);
	for (unsigned i = 0; rmdir(cgroup) && i < 100; i++)
		usleep(1000);
}

/* ---- descriptor tables ---- */

static void body_zombie_leader(struct board *b)
{
	start_spinner(b, 0);
	start_spinner(b, 1);
	atomic_store(&b->ready, 1);
	pthread_exit(NULL);
}

static void leader_that_has_ended_is_not_needed(void **state)
{
	struct attach_result r;
	struct attach_prey p;

	prey_start(&p, body_zombie_leader);
	usleep(10000);
	for (unsigned i = 0; i < 5; i++)
		for (int m = ATTACH_SYSCALL; m <= ATTACH_DEVICE; m++) {
			attach_ok(p.pid, (enum attach_method)m, &r);
			assert_int_equal(r.threads, 2);
		}
	assert_true(board_alive(p.board, 2));
	assert_int_equal(p.board->trouble, 0);
	prey_stop(&p);
}

static void limit_files(struct board *b, rlim_t more)
{
	struct rlimit files = {.rlim_cur = (rlim_t)dup(0)};

	close((int)files.rlim_cur);
	files.rlim_cur += more;
	files.rlim_max = files.rlim_cur;
	if (setrlimit(RLIMIT_NOFILE, &files))
		_exit(1);
	body_spin_1(b);
}

static void body_no_file_more(struct board *b)
{
	limit_files(b, 0);
}

static void body_one_file_more(struct board *b)
{
	limit_files(b, 1);
}

static void body_two_files_more(struct board *b)
{
	limit_files(b, 2);
}

static void body_three_files_more(struct board *b)
{
	limit_files(b, 3);
}

/* The system call takes one descriptor, the device three. */
static void full_descriptor_table_is_refused(void **state)
{
	static const target_body bodies[] = {
		body_no_file_more, body_one_file_more, body_two_files_more,
		body_three_files_more};
	struct prey_census before, after;
	struct attach_result r;
	struct attach_prey p;

	for (unsigned more = 0; more < 4; more++) {
		prey_start(&p, bodies[more]);
		prey_census(p.pid, &before, false);
		for (int m = ATTACH_SYSCALL; m <= ATTACH_DEVICE; m++) {
			unsigned needs = m == ATTACH_SYSCALL ? 1 : 3;
			struct outcome o = attach_with(
				&(struct attach_options){
					.pid = p.pid,
					.method = (enum attach_method)m},
				&r);

			if (more < needs)
				expect_outcome(&o, -EMFILE,
					       SNAP_FAILURE_REFUSED,
					       "descriptor|prlimit");
			else
				expect_outcome(&o, 0, SNAP_FAILURE_NONE, "");
		}
		prey_census(p.pid, &after, false);
		expect_census(&before, &after);
		assert_true(board_alive(p.board, 1));
		prey_stop(&p);
	}
}

static void *own_files(void *arg)
{
	struct board *b = arg;

	if (unshare(CLONE_FILES))
		_exit(1);
	/* A number that means something else to the first thread. */
	for (unsigned i = 0; i < 20; i++)
		if (dup(0) < 0)
			_exit(1);
	atomic_store(&b->number, syscall(SYS_gettid));
	atomic_store(&b->ready, 1);
	for (;;) {
		atomic_fetch_add(&b->lane[0], 1);
		usleep(50);
	}
	return NULL;
}

/* The second thread is preferred, as it has no filter. */
static void body_own_files(struct board *b)
{
	pthread_t t;

	pthread_create(&t, NULL, own_files, b);
	allow_all();
	for (;;)
		pause();
}

static unsigned thread_fds(pid_t pid, pid_t tid)
{
	struct dirent *e;
	unsigned n = 0;
	char path[64];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", pid, tid);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void thread_with_its_own_descriptors_gives_the_right_one(void **state)
{
	struct attach_prey p;
	unsigned fds;
	pid_t tid;

	prey_start(&p, body_own_files);
	tid = (pid_t)p.board->number;
	fds = thread_fds(p.pid, tid);
	for (unsigned i = 0; i < 3; i++)
		attach_both_ways(&p, 2);
	assert_int_equal(thread_fds(p.pid, tid), fds);
	assert_true(board_alive(p.board, 1));
	prey_stop(&p);
}

/* ---- signals on their way ---- */

/* Two threads on which a signal is due nearly all the time. */
static void body_bombed(struct board *b)
{
	board = b;
	signal(SIGRTMIN, on_signal);
	start_spinner(b, 1);
	atomic_store(&b->ready, 1);
	for (;;)
		atomic_fetch_add(&b->lane[0], 1);
}

/* Queued signals, so that each one counts. */
static pid_t start_bomber(const struct attach_prey *p)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!atomic_load(&p->board->go))
		if (!sigqueue(p->pid, SIGRTMIN, (union sigval){0}))
			atomic_fetch_add(&p->board->number, 1);
	_exit(0);
}

static void signals_on_their_way_are_all_delivered(void **state)
{
	struct attach_options opts = {.stop_deadline_ms = 3000, .retry_ms = 1};
	struct attach_prey p;
	struct attach *a;
	pid_t bomber;

	prey_start(&p, body_bombed);
	bomber = start_bomber(&p);
	opts.pid = p.pid;
	assert_int_equal(attach_open(&a, &opts), 0);
	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(attach_stop(a), 0);
		assert_int_equal(attach_resume(a), 0);
	}
	attach_close(a);
	atomic_store(&p.board->go, 1);
	waitpid(bomber, NULL, 0);
	assert_true(p.board->number > 0);
	assert_true(board_wait(&p.board->signals, (uint32_t)p.board->number));
	assert_int_equal(p.board->signals, p.board->number);
	assert_true(board_alive(p.board, 2));
	assert_int_equal(p.board->trouble, 0);
	prey_stop(&p);
}

/* ---- threads that come and go ---- */

static void storm_of_threads_loses_nothing(void **state)
{
	unsigned timeouts = 0, threads = 0;
	struct attach_result r;
	struct attach_prey p;

	prey_start(&p, body_storm);
	for (unsigned i = 0; i < 200; i++) {
		attach_ok(p.pid, i & 1 ? ATTACH_SYSCALL : ATTACH_DEVICE, &r);
		timeouts += r.attempts - 1;
		threads = r.threads > threads ? r.threads : threads;
	}
	print_message("200 rounds, %u timed out, up to %u threads\n", timeouts,
		      threads);
	assert_true(board_alive(p.board, 2));
	assert_int_equal(p.board->trouble, 0);
	kill(p.pid, SIGSTOP);
	usleep(1000);
	struct prey_census c;

	prey_census(p.pid, &c, false);
	assert_int_equal(c.userfaultfds, 0);
	assert_int_equal(c.tracer, 0);
	kill(p.pid, SIGCONT);
	assert_true(board_alive(p.board, 2));
	prey_stop(&p);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(restartable_sequence_is_aborted),
		cmocka_unit_test(seccomp_filter_is_suspended_and_comes_back),
		cmocka_unit_test(
			seccomp_filter_that_may_not_be_suspended_is_refused),
		cmocka_unit_test(
			syscall_user_dispatch_is_suspended_and_comes_back),
		cmocka_unit_test(io_worker_is_never_used),
		cmocka_unit_test(vfork_ends_the_wait_and_an_attempt_succeeds),
		cmocka_unit_test(frozen_target_is_refused_and_thaws),
		cmocka_unit_test(leader_that_has_ended_is_not_needed),
		cmocka_unit_test(full_descriptor_table_is_refused),
		cmocka_unit_test(
			thread_with_its_own_descriptors_gives_the_right_one),
		cmocka_unit_test(signals_on_their_way_are_all_delivered),
		cmocka_unit_test(storm_of_threads_loses_nothing),
	};

	if (!PREY_IS_PLAIN)
		return prey_skip();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

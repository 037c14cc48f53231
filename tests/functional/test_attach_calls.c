// SPDX-License-Identifier: MIT
/*
 * Targets that are blocked in a system call: the call goes on as if nothing
 * had happened, and still ends as it should.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attach.h"
#include "lib/attach_targets.h"
#include "libsnap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/kvm.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A call that blocks for ever, or for half a second. */
struct blocked {
	const char *name;
	int64_t (*call)(void);
	bool short_time; /* it ends by itself, */
	int64_t result;	 /* with this, or by a signal, with -EINTR */
};

#define ENDS_WITH(r) .short_time = true, .result = (r)
#define ENDS_BY_SIGNAL .result = -EINTR

#define FOREVER_S 1000
#define HALF_SECOND                                                            \
	{                                                                      \
		.tv_nsec = 500000000                                           \
	}

static int64_t err_of(int64_t r)
{
	return r < 0 ? -errno : r;
}

static int pipe_end(void)
{
	int ends[2];

	return pipe(ends) ? -1 : ends[0];
}

static int64_t call_read(void)
{
	char c;

	return err_of(read(pipe_end(), &c, 1));
}

static int64_t call_nanosleep(void)
{
	return err_of(nanosleep(&(struct timespec)HALF_SECOND, NULL));
}

static int64_t call_nanosleep_absolute(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec++;
	return -clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static uint32_t word;

static int64_t call_futex(void)
{
	return err_of(syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0));
}

static int64_t call_futex_timed(void)
{
	return err_of(syscall(SYS_futex, &word, FUTEX_WAIT, 0,
			      &(struct timespec)HALF_SECOND, NULL, 0));
}

static int64_t wait_epoll(int timeout_ms, const sigset_t *mask)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int ep = epoll_create1(0);

	epoll_ctl(ep, EPOLL_CTL_ADD, pipe_end(), &ev);
	return err_of(epoll_pwait(ep, &ev, 1, timeout_ms, mask));
}

static int64_t call_epoll_wait(void)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int ep = epoll_create1(0);

	epoll_ctl(ep, EPOLL_CTL_ADD, pipe_end(), &ev);
	return err_of(syscall(SYS_epoll_wait, ep, &ev, 1, -1));
}

static int64_t call_epoll_timed(void)
{
	return wait_epoll(500, NULL);
}

/* SIGUSR1 is blocked but for the time of the call. */
static void let_usr1_through(sigset_t *during)
{
	sigset_t block;

	sigemptyset(during);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	sigprocmask(SIG_BLOCK, &block, NULL);
}

static int64_t call_epoll_pwait(void)
{
	sigset_t during;

	let_usr1_through(&during);
	return wait_epoll(-1, &during);
}

static int64_t call_epoll_pwait2(void)
{
	struct epoll_event ev;
	struct timespec t = {.tv_sec = FOREVER_S};

	return err_of(epoll_pwait2(epoll_create1(0), &ev, 1, &t, NULL));
}

static int64_t call_poll(void)
{
	return err_of(poll(NULL, 0, -1));
}

static int64_t call_poll_timed(void)
{
	return err_of(poll(NULL, 0, 500));
}

static int64_t call_ppoll(void)
{
	sigset_t during;

	let_usr1_through(&during);
	return err_of(ppoll(NULL, 0, NULL, &during));
}

static int64_t call_select(void)
{
	return err_of(select(0, NULL, NULL, NULL, NULL));
}

static int64_t call_sigsuspend(void)
{
	sigset_t during;

	let_usr1_through(&during);
	return err_of(sigsuspend(&during));
}

static int64_t call_sigtimedwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return err_of(sigtimedwait(&set, NULL,
				   &(struct timespec){.tv_sec = FOREVER_S}));
}

static int64_t call_semop(void)
{
	int id = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf take = {.sem_op = -1};
	int64_t r = err_of(semop(id, &take, 1));

	semctl(id, 0, IPC_RMID);
	return r;
}

static int64_t call_semtimedop(void)
{
	int id = semget(IPC_PRIVATE, 1, 0600);
	struct sembuf take = {.sem_op = -1};
	int64_t r =
		err_of(semtimedop(id, &take, 1, &(struct timespec)HALF_SECOND));

	semctl(id, 0, IPC_RMID);
	return r;
}

static int64_t call_msgrcv(void)
{
	int id = msgget(IPC_PRIVATE, 0600);
	long buf[2];
	int64_t r = err_of(msgrcv(id, buf, 8, 0, 0));

	msgctl(id, IPC_RMID, NULL);
	return r;
}

static int socket_with_timeout(void)
{
	struct timeval t = {.tv_sec = FOREVER_S};
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return -1;
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	return pair[0];
}

static int64_t call_recv(void)
{
	char c;

	return err_of(recv(socket_with_timeout(), &c, 1, 0));
}

static int64_t call_read_socket(void)
{
	char c;

	return err_of(read(socket_with_timeout(), &c, 1));
}

static int64_t call_send(void)
{
	int s = socket_with_timeout();
	static char buf[65536];

	while (send(s, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	return err_of(send(s, buf, 1, 0));
}

static int64_t call_accept(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct timeval t = {.tv_sec = FOREVER_S};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	if (bind(s, (struct sockaddr *)&addr, sizeof(sa_family_t)) ||
	    listen(s, 1))
		return -1;
	return err_of(accept(s, NULL, NULL));
}

static int64_t call_timerfd(void)
{
	struct itimerspec t = {.it_value = HALF_SECOND};
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t ticks;

	timerfd_settime(fd, 0, &t, NULL);
	return err_of(read(fd, &ticks, sizeof(ticks)));
}

static int64_t call_flock(void)
{
	char path[64];
	int a = memfd_create("lock", 0);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", a);
	if (flock(a, LOCK_EX))
		return -1;
	return err_of(flock(open(path, O_RDWR), LOCK_EX));
}

static int64_t call_wait4(void)
{
	pid_t child = fork();

	if (!child) {
		usleep(500000);
		_exit(0);
	}
	return err_of(waitpid(child, NULL, 0)) == child;
}

static int64_t call_io_uring_enter(void)
{
	struct io_uring_params p = {0};
	int fd = (int)syscall(SYS_io_uring_setup, 4, &p);

	if (fd < 0)
		return -ENOSYS;
	return err_of(syscall(SYS_io_uring_enter, fd, 0, 1,
			      IORING_ENTER_GETEVENTS, NULL, 0));
}

static const struct blocked calls[] = {
	{"read", call_read, ENDS_BY_SIGNAL},
	{"nanosleep", call_nanosleep, ENDS_WITH(0)},
	{"nanosleep_absolute", call_nanosleep_absolute, ENDS_WITH(0)},
	{"futex", call_futex, ENDS_BY_SIGNAL},
	{"futex_timed", call_futex_timed, ENDS_WITH(-ETIMEDOUT)},
	{"epoll_wait", call_epoll_wait, ENDS_BY_SIGNAL},
	{"epoll_timed", call_epoll_timed, ENDS_WITH(0)},
	{"epoll_pwait", call_epoll_pwait, ENDS_BY_SIGNAL},
	{"epoll_pwait2", call_epoll_pwait2, ENDS_BY_SIGNAL},
	{"poll", call_poll, ENDS_BY_SIGNAL},
	{"poll_timed", call_poll_timed, ENDS_WITH(0)},
	{"ppoll", call_ppoll, ENDS_BY_SIGNAL},
	{"select", call_select, ENDS_BY_SIGNAL},
	{"sigsuspend", call_sigsuspend, ENDS_BY_SIGNAL},
	{"sigtimedwait", call_sigtimedwait, ENDS_BY_SIGNAL},
	{"semop", call_semop, ENDS_BY_SIGNAL},
	{"semtimedop", call_semtimedop, ENDS_WITH(-EAGAIN)},
	{"msgrcv", call_msgrcv, ENDS_BY_SIGNAL},
	{"recv", call_recv, ENDS_BY_SIGNAL},
	{"read_socket", call_read_socket, ENDS_BY_SIGNAL},
	{"send", call_send, ENDS_BY_SIGNAL},
	{"accept", call_accept, ENDS_BY_SIGNAL},
	{"timerfd", call_timerfd, ENDS_WITH(8)},
	{"flock", call_flock, ENDS_BY_SIGNAL},
	{"wait4", call_wait4, ENDS_WITH(1)},
	{"io_uring_enter", call_io_uring_enter, ENDS_BY_SIGNAL},
};

static const struct blocked *current;
static struct board *board;

static void on_usr1(int sig)
{
	atomic_fetch_add(&board->signals, 1);
}

static void body_call(struct board *b)
{
	struct sigaction sa = {.sa_handler = on_usr1}; /* no SA_RESTART */

	board = b;
	sigaction(SIGUSR1, &sa, NULL);
	atomic_store(&b->ready, 1);
	atomic_store(&b->result, current->call());
	atomic_store(&b->done, 1);
	for (;;)
		pause();
}

static void start_call(struct attach_prey *p, const struct blocked *c)
{
	current = c;
	prey_start(p, body_call);
	prey_wait_asleep(p->pid, p->pid);
	if (p->board->done)
		fail_msg("%s did not block: %lld", c->name,
			 (long long)p->board->result);
}

static struct attach *open_ok(pid_t pid)
{
	struct attach_options o = {.pid = pid};
	struct attach *a;

	if (attach_open(&a, &o))
		fail_msg("%s", snap_error_message());
	return a;
}

static void take_ok(struct attach *a)
{
	struct attach_result r;

	if (attach_take_uffd(a, &r))
		fail_msg("%s", snap_error_message());
	close(r.uffd);
	close(r.pidfd);
	close(r.mem_fd);
}

static void expect_end(struct attach_prey *p, const struct blocked *c)
{
	if (!board_wait(&p->board->done, 1))
		fail_msg("%s did not end", c->name);
	if (p->board->result != c->result)
		fail_msg("%s: %lld, not %lld", c->name,
			 (long long)p->board->result, (long long)c->result);
}

static void call_goes_on_and_ends(const struct blocked *c)
{
	struct attach_prey p;
	struct attach *a;

	start_call(&p, c);
	a = open_ok(p.pid);
	for (unsigned i = 0; i < 3; i++) {
		take_ok(a);
		assert_int_equal(attach_stop(a), 0);
		assert_int_equal(attach_resume(a), 0);
		usleep(3000);
		if (p.board->done)
			fail_msg("%s was ended by the attach: %lld", c->name,
				 (long long)p.board->result);
	}
	attach_close(a);
	if (!c->short_time)
		kill(p.pid, SIGUSR1);
	expect_end(&p, c);
	assert_int_equal(p.board->signals, c->short_time ? 0 : 1);
	prey_stop(&p);
}

static void blocked_calls_are_not_ended(void **state)
{
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		call_goes_on_and_ends(&calls[i]);
}

static void signal_that_comes_in_the_stop_ends_the_call(void **state)
{
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		const struct blocked *c = &calls[i];
		struct attach_prey p;
		struct attach *a;

		if (c->short_time)
			continue;
		start_call(&p, c);
		a = open_ok(p.pid);
		assert_int_equal(attach_stop(a), 0);
		kill(p.pid, SIGUSR1);
		assert_int_equal(attach_resume(a), 0);
		expect_end(&p, c);
		assert_int_equal(p.board->signals, 1);
		attach_close(a);
		prey_stop(&p);
	}
}

/* ---- a virtual CPU ---- */

static void body_kvm(struct board *b)
{
	struct kvm_userspace_memory_region mem = {.memory_size = 0x1000};
	struct kvm_sregs sregs;
	struct kvm_regs regs = {.rflags = 2};
	struct kvm_run *run;
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm, cpu;
	unsigned char *ram;

	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	ram = mmap(NULL, 0x1000, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/* 1: incw 0x800; jmp 1b */
	memcpy(ram, "\xff\x06\x00\x08\xeb\xfa", 6);
	mem.userspace_addr = (uintptr_t)ram;
	ioctl(vm, KVM_SET_USER_MEMORY_REGION, &mem);
	cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	run = mmap(NULL, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0),
		   PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
	if (cpu < 0 || run == MAP_FAILED)
		_exit(1);
	ioctl(cpu, KVM_GET_SREGS, &sregs);
	sregs.cs.base = sregs.cs.selector = 0;
	ioctl(cpu, KVM_SET_SREGS, &sregs);
	ioctl(cpu, KVM_SET_REGS, &regs);
	atomic_store(&b->number, (intptr_t)ram);
	atomic_store(&b->ready, 1);
	for (;;) {
		int r = ioctl(cpu, KVM_RUN, 0);

		atomic_fetch_add(&b->lane[0], 1);
		if (r && errno != EINTR)
			atomic_fetch_add(&b->trouble, 1);
	}
}

static uint16_t guest_counter(const struct attach_prey *p, int mem_fd)
{
	uint16_t n = 0;

	assert_int_equal(pread(mem_fd, &n, 2, p->board->number + 0x800), 2);
	return n;
}

static void guest_in_kvm_run_is_stopped_and_goes_on(void **state)
{
	struct attach_result r;
	struct attach_prey p;
	struct attach *a;
	uint16_t at;

	if (access("/dev/kvm", R_OK | W_OK)) {
		print_message("no /dev/kvm\n");
		skip();
	}
	prey_start(&p, body_kvm);
	usleep(50000);
	a = open_ok(p.pid);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(attach_take_uffd(a, &r), 0);
		close(r.uffd);
		close(r.pidfd);
		assert_int_equal(attach_stop(a), 0);
		at = guest_counter(&p, r.mem_fd);
		usleep(10000);
		assert_int_equal(guest_counter(&p, r.mem_fd), at);
		assert_int_equal(attach_resume(a), 0);
		for (unsigned k = 0; guest_counter(&p, r.mem_fd) == at; k++) {
			assert_true(k < 1000);
			usleep(1000);
		}
		close(r.mem_fd);
	}
	attach_close(a);
	assert_int_equal(p.board->trouble, 0);
	prey_stop(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocked_calls_are_not_ended),
		cmocka_unit_test(signal_that_comes_in_the_stop_ends_the_call),
		cmocka_unit_test(guest_in_kvm_run_is_stopped_and_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

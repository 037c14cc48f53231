// SPDX-License-Identifier: MIT
/*
 * Stops every thread of the target and lets them go.
 *
 * How it works
 *
 * PTRACE_SEIZE and PTRACE_INTERRUPT stop a thread without a signal, in the
 * kernel's signal path (PTRACE_EVENT_STOP).  The list of threads is walked
 * until two walks in a row find nobody new: one walk may miss a thread whose
 * neighbours in the list ended meanwhile.  From then on nobody can start
 * threads, fork or exec.
 *
 * A stop is seen by system calls that do not restart by themselves: they would
 * return EINTR although no signal came.  Such a thread's -EINTR is replaced by
 * the kernel's own -ERESTARTNOHAND while it is in the signal path, which means
 * "EINTR if a handler is to run, otherwise once more": the kernel decides at
 * the moment the thread goes on, and a signal that comes during the stop gives
 * the EINTR that it should.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach_internal.h"
#include "attach_proc.h"
#include "attach_sys.h"
#include "sys.h"
#include "util/util.h"

#define ERESTARTNOHAND 514 /* include/linux/errno.h */
#define SEIZE_OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC)
/* How often to look for what stops nobody but us. */
#define TICK_MS 5
/* Of 1 ms each, before a refusal is believed. */
#define EXEC_TRIES 20

static struct attach_helper *self;

void attach_tick_for(struct attach_helper *h)
{
	self = h;
}

/*
 * An exec waits for all other threads to end, and a traced one has ended only
 * when its tracer has waited for it.  One by one and only those that are dead:
 * waitid() for any of them would take stops as well, whatever its flags.
 */
static void reap_dead(struct attach_helper *h)
{
	const int flags = WEXITED | WNOHANG | __WALL;

	for (size_t i = 0; i < h->count; i++) {
		struct tracee *t = &h->tracees[i];
		siginfo_t info = {0};

		if (t->gone ||
		    waitid(P_PID, (id_t)t->tid, &info, flags | WNOWAIT))
			continue;
		if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED ||
		    info.si_code == CLD_DUMPED)
			t->gone = !waitid(P_PID, (id_t)t->tid, &info, flags);
	}
}

/*
 * Runs inside PTRACE_SEIZE only, which waits for an exec of the target to be
 * over, however long that takes.  Without the first step it and we would wait
 * for each other; the second is the deadline.
 */
void attach_on_tick(int sig)
{
	struct attach_reply reply = {
		.err = -ETIMEDOUT,
		.failure = SNAP_FAILURE_REFUSED,
		.text = "the process is in the middle of an exec that does not "
			"end: try again",
	};
	int saved = errno;

	reap_dead(self);
	if (now_ns() >= self->deadline_ns) {
		sys_write(self->sock, &reply, sizeof(reply));
		_exit(1);
	}
	errno = saved;
}

/* At most for TICK_MS: true when SIGCHLD came. */
static bool wait_for_child(uint64_t deadline_ns)
{
	uint64_t now = now_ns(), wait = TICK_MS * 1000000u;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	if (deadline_ns)
		wait = deadline_ns > now ? min_u64(wait, deadline_ns - now) : 0;
	return sys_sigtimedwait(&child, wait) > 0;
}

int attach_wait(pid_t tid, int *status, uint64_t deadline_ns)
{
	/* SIGCHLD is blocked and stays pending, so a stop between the question
	 * and the wait is not missed. */
	for (;;) {
		pid_t got = sys_waitpid(tid, status, __WALL | WNOHANG);

		if (got == tid)
			return 0;
		if (got < 0)
			return -ECHILD;
		if (deadline_ns && now_ns() >= deadline_ns)
			return -ETIMEDOUT;
		if (!wait_for_child(deadline_ns))
			reap_dead(self);
	}
}

bool attach_is_worker(const struct attach_helper *h, pid_t tid)
{
	struct attach_task task;

	return attach_proc_task(h->target->proc_fd, tid, &task) ||
	       (task.flags & (TASK_IO_WORKER | TASK_USER_WORKER));
}

int attach_settle(struct tracee *t, uint64_t deadline_ns)
{
	int status, err;

	for (;;) {
		err = attach_wait(t->tid, &status, deadline_ns);
		if (err == -ETIMEDOUT)
			return err;
		if (err || !WIFSTOPPED(status)) {
			t->gone = true;
			return -ESRCH;
		}
		if (status >> 16 == PTRACE_EVENT_STOP)
			break;
		if (status >> 16 == PTRACE_EVENT_EXEC) {
			t->stopped = true;
			return -EEXIST;
		}
		/* A signal on its way to a handler came first.  Any such stop
		 * may use the request up: ask again, then pass it on. */
		sys_ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
		sys_ptrace(PTRACE_CONT, t->tid, 0,
			   (uintptr_t)WSTOPSIG(status) & 0x7f);
	}
	/* Killed meanwhile: it is to be waited for yet. */
	if (sys_ptrace(PTRACE_GETREGS, t->tid, 0, (uintptr_t)&t->regs))
		return -ESRCH;
	t->stopped = true;
	return 0;
}

/* Calls that give EINTR for any interruption (man 7 signal), the socket ones
 * when a time-out is set.  ioctl is not here: KVM_RUN's caller expects it. */
static bool would_restart(uint64_t nr)
{
	static const short list[] = {
		SYS_epoll_wait,	     SYS_epoll_pwait, SYS_epoll_pwait2,
		SYS_semop,	     SYS_semtimedop,  SYS_io_getevents,
		SYS_rt_sigtimedwait, SYS_recvfrom,    SYS_recvmsg,
		SYS_recvmmsg,	     SYS_sendto,      SYS_sendmsg,
		SYS_sendmmsg,	     SYS_accept,      SYS_accept4,
		SYS_connect,	     SYS_read,	      SYS_readv,
		SYS_write,	     SYS_writev,      SYS_io_uring_enter,
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (nr == (uint64_t)list[i])
			return true;
	return false;
}

static void hide_stop(const struct attach_helper *h, struct tracee *t)
{
	struct user_regs_struct regs = t->regs;

	if ((int64_t)regs.rax != -EINTR || !would_restart(regs.orig_rax) ||
	    attach_is_worker(h, t->tid))
		return;
	regs.rax = (uint64_t)-ERESTARTNOHAND;
	if (!sys_ptrace(PTRACE_SETREGS, t->tid, 0, (uintptr_t)&regs))
		t->regs = regs;
}

static struct tracee *add(struct attach_helper *h, pid_t tid)
{
	size_t bytes = h->capacity * sizeof(struct tracee);

	if (h->count == h->capacity) {
		size_t more = bytes ? 2 * bytes : 16 * PAGE_BYTES;
		void *p = h->tracees ? mremap(h->tracees, bytes, more,
					      MREMAP_MAYMOVE)
				     : mmap(NULL, more, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return NULL;
		h->tracees = p;
		h->capacity = more / sizeof(struct tracee);
	}
	h->tracees[h->count] = (struct tracee){.tid = tid};
	return &h->tracees[h->count++];
}

/* The kernel lists threads in the order of their birth, and so do we: the
 * search begins where the last one ended. */
static bool is_known(const struct attach_helper *h, pid_t tid, size_t *hint)
{
	for (size_t i = 0; i < h->count; i++) {
		size_t at = (*hint + i) % h->count;

		if (h->tracees[at].tid == tid && !h->tracees[at].gone) {
			*hint = at + 1;
			return true;
		}
	}
	return false;
}

static int refuse_seize(const struct attach_helper *h, pid_t tid, int err)
{
	uint64_t tracer = 0;

	attach_proc_status(h->target->proc_fd, tid, "TracerPid", 10, &tracer);
	if (tracer)
		return error_set(-EBUSY, SNAP_FAILURE_REFUSED,
				 "thread %d of process %d is traced by process "
				 "%d already, and there can be one tracer: "
				 "detach that one",
				 tid, h->target->pid, (int)tracer);
	return attach_error(err, SNAP_FAILURE_REFUSED,
			    "no right to trace thread %d of process %d", tid,
			    h->target->pid);
}

static long seize(pid_t tid)
{
	sigset_t open, old;
	long err;

	sigemptyset(&open);
	sigaddset(&open, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &open, &old);
	err = sys_ptrace(PTRACE_SEIZE, tid, 0, SEIZE_OPTIONS);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return err;
}

/* A zombie, such as a leader that called pthread_exit(), cannot be traced and
 * need not. */
static bool is_dead(const struct attach_helper *h, pid_t tid)
{
	struct attach_task task;

	return attach_proc_task(h->target->proc_fd, tid, &task) ||
	       task.state == 'Z' || task.state == 'X';
}

/*
 * In an exec the first thread's number passes from one that is dead to one
 * that lives.  Seen in between, the refusal is of the dead one: only one that
 * lasts is about our rights.
 */
static long seize_patiently(const struct attach_helper *h, pid_t tid)
{
	uint64_t tracer = 0;
	long err = seize(tid);

	for (unsigned i = 0; err == -EPERM && i < EXEC_TRIES; i++) {
		if (is_dead(h, tid))
			return -ESRCH;
		attach_proc_status(h->target->proc_fd, tid, "TracerPid", 10,
				   &tracer);
		if (tracer)
			break;
		sys_poll(NULL, 0, 1);
		err = seize(tid);
	}
	return err;
}

static int explain_exec(const struct attach_helper *h)
{
	return error_set(-ESRCH, SNAP_FAILURE_GONE,
			 "process %d has replaced its program by exec",
			 h->target->pid);
}

/* The descriptor of its memory is that of the program which was checked: after
 * an exec, whenever it was, it gives nothing. */
static ssize_t read_gadget(const struct attach_helper *h, unsigned char code[2])
{
	return sys_pread(h->target->mem_fd, code, 2, h->target->gadget);
}

/* 0 also when the thread has ended meanwhile. */
static int seize_one(struct attach_helper *h, pid_t tid)
{
	long err = seize_patiently(h, tid);
	unsigned char code[2];

	if (err == -ESRCH)
		return 0;
	if (err)
		return refuse_seize(h, tid, (int)err);
	/* PTRACE_SEIZE waits for an exec to end, and the thread that it is
	 * given may have another number then: it is traced, but not asked to
	 * stop by this one. */
	if (sys_ptrace(PTRACE_INTERRUPT, tid, 0, 0) == -ESRCH &&
	    read_gadget(h, code) == 0)
		return explain_exec(h);
	return add(h, tid) ? 0 : error_nomem("the list of threads");
}

static int seize_new(struct attach_helper *h)
{
	struct attach_tasks w;
	size_t hint = 0;
	pid_t tid;
	int err;

	if (attach_tasks_open(&w, h->target->proc_fd))
		return 0; /* it has ended: nobody will be found stopped */
	err = 0;
	while (!err && (tid = attach_tasks_next(&w)) > 0)
		if (!is_known(h, tid, &hint))
			err = seize_one(h, tid);
	attach_tasks_close(&w);
	return err;
}

/* The number of a thread that ended may have gone to another process between
 * the list and the call: it is let go again, as nothing was done to it. */
static void forget_stranger(struct attach_helper *h, struct tracee *t)
{
	struct attach_task task;

	if (!attach_proc_task(h->target->proc_fd, t->tid, &task))
		return;
	sys_ptrace(PTRACE_DETACH, t->tid, 0, 0);
	t->gone = true;
}

static int explain_stuck(const struct attach_helper *h, pid_t tid)
{
	return error_set(-ETIMEDOUT, SNAP_FAILURE_REFUSED,
			 "thread %d of process %d did not stop within %u ms: "
			 "it is in vfork() or waits for a device; try again",
			 tid, h->target->pid, h->options->stop_deadline_ms);
}

static int settle_from(struct attach_helper *h, size_t first)
{
	for (size_t i = first; i < h->count; i++) {
		struct tracee *t = &h->tracees[i];
		int err = attach_settle(t, h->deadline_ns);

		if (err == -ETIMEDOUT)
			return explain_stuck(h, t->tid);
		if (err == -EEXIST)
			return explain_exec(h);
		if (err)
			continue;
		forget_stranger(h, t);
		if (!t->gone)
			hide_stop(h, t);
	}
	return 0;
}

size_t attach_stopped_threads(const struct attach_helper *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->count; i++)
		n += h->tracees[i].stopped && !h->tracees[i].gone;
	return n;
}

static int check_same_program(const struct attach_helper *h)
{
	unsigned char code[2];
	ssize_t n;

	if (!attach_stopped_threads(h))
		return error_set(-ESRCH, SNAP_FAILURE_GONE,
				 "process %d has ended", h->target->pid);
	n = read_gadget(h, code);
	if (n == 0)
		return explain_exec(h);
	if (n != sizeof(code) || code[0] != 0x0f || code[1] != 0x05)
		return error_set(-EAGAIN, SNAP_FAILURE_INTERNAL,
				 "process %d has unmapped the code that a "
				 "system call was to be borrowed from: try "
				 "again",
				 h->target->pid);
	return 0;
}

static void tick_every(unsigned ms)
{
	const struct timeval t = {.tv_usec = (suseconds_t)ms * 1000};

	setitimer(ITIMER_REAL, &(struct itimerval){t, t}, NULL);
}

static int stop_until_stable(struct attach_helper *h)
{
	unsigned clean = 0;

	while (clean < 2) {
		size_t known = h->count;
		int err = seize_new(h);

		if (!err)
			err = settle_from(h, known);
		if (err)
			return err;
		clean = h->count == known ? clean + 1 : 0;
		if (now_ns() >= h->deadline_ns)
			return error_set(
				-ETIMEDOUT, SNAP_FAILURE_REFUSED,
				"process %d starts threads faster than "
				"they can be stopped in %u ms",
				h->target->pid, h->options->stop_deadline_ms);
	}
	return check_same_program(h);
}

int attach_stop_threads(struct attach_helper *h)
{
	int err;

	h->count = 0;
	h->first_stop_ns = now_ns();
	h->deadline_ns = h->first_stop_ns +
			 h->options->stop_deadline_ms * UINT64_C(1000000);
	tick_every(TICK_MS);
	err = stop_until_stable(h);
	tick_every(0);
	return err;
}

static bool let_go(const struct tracee *t)
{
	int status;
	pid_t got;

	if (t->gone)
		return true;
	if (t->stopped && !sys_ptrace(PTRACE_DETACH, t->tid, 0, 0))
		return true;
	/* It was killed in its stop: its process cannot end before we have
	 * waited for it. */
	got = sys_waitpid(t->tid, &status, __WALL | WNOHANG);
	return got == -ECHILD || (got == t->tid && !WIFSTOPPED(status));
}

void attach_resume_threads(struct attach_helper *h)
{
	for (size_t i = 0; i < h->count; i++)
		if (!let_go(&h->tracees[i]))
			h->stuck = true;
}

// SPDX-License-Identifier: MIT
/*
 * Has one stopped thread of the target make system calls, and puts it back.
 *
 * How it works
 *
 * Only registers are changed, no code and no memory: rip is set to a syscall
 * instruction that is there anyway, PTRACE_SYSCALL runs to the call's entry and
 * again to its exit.  orig_rax = -1 keeps the kernel from restarting what the
 * thread was doing before, at the wrong place.
 *
 * The saved registers go back in at the exit of the last call, and then the
 * thread is led into the signal path once more (PTRACE_INTERRUPT, PTRACE_CONT,
 * PTRACE_EVENT_STOP): an interrupted call shows there as -ERESTART*, which only
 * that path turns into a restart.  Running on from the exit would hand errno
 * 512 .. 516 to the program.
 *
 * All signals are blocked meanwhile, so that none can be delivered to a thread
 * that is not itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "attach_internal.h"
#include "attach_proc.h"
#include "attach_sys.h"
#include "sys.h"
#include "util/util.h"

/* include/uapi/linux/ptrace.h; 5.20, 5.13, 4.3 */
#define GET_SYSCALL_USER_DISPATCH 0x4211
#define SET_SYSCALL_USER_DISPATCH 0x4210
#define GET_RSEQ_CONFIGURATION 0x420f
#define O_SUSPEND_SECCOMP (1u << 21)

#define PIDFD_FOR_THREAD O_EXCL /* PIDFD_THREAD, 6.9 */
#define USER_CS 0x33		/* 64-bit code */
#define EFLAGS_TRAP 0x100	/* single step */
#define SIGSET_BYTES 8
/* How many are looked at: most often all have the same filter, and each look
 * costs the target time. */
#define ENOUGH_THREADS 16
/* A thread that was told to run does so at once, or is in a frozen cgroup. */
#define ENTRY_WAIT_NS UINT64_C(1000000000)

struct rseq_configuration {
	uint64_t area;
	uint32_t area_size, signature, flags, pad;
};

/* Descriptor of a critical section, include/uapi/linux/rseq.h. */
struct rseq_section {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

static bool read_target(const struct attach_helper *h, uint64_t addr, void *out,
			size_t len)
{
	return sys_pread(h->target->mem_fd, out, len, addr) == (ssize_t)len;
}

/*
 * The abort address of the restartable sequence that @t is in the middle of,
 * or 0.  Code run by the thread elsewhere makes the kernel forget the section,
 * so that it would go on in its middle as if it had not been interrupted.
 */
static uint64_t rseq_abort(const struct attach_helper *h,
			   const struct tracee *t)
{
	struct rseq_configuration conf = {0};
	struct rseq_section section;
	uint64_t at;

	if (sys_ptrace(GET_RSEQ_CONFIGURATION, t->tid, sizeof(conf),
		       (uintptr_t)&conf) <= 0 ||
	    !conf.area)
		return 0;
	if (!read_target(h, conf.area + 8, &at, sizeof(at)) || !at ||
	    !read_target(h, at, &section, sizeof(section)))
		return 0;
	return t->regs.rip - section.start < section.length ? section.abort : 0;
}

static bool has_seccomp(const struct attach_helper *h, pid_t tid)
{
	uint64_t mode = 1;

	attach_proc_status(h->target->proc_fd, tid, "Seccomp", 10, &mode);
	return mode != 0;
}

/* The first thread with nothing special about it, else the least special. */
static struct tracee *choose_thread(struct attach_helper *h)
{
	struct tracee *best = NULL;
	unsigned best_cost = ~0u;

	for (size_t i = 0; i < h->count && best_cost; i++) {
		struct tracee *t = &h->tracees[i];
		unsigned cost;

		if (best && i >= ENOUGH_THREADS)
			break;
		if (t->gone || !t->stopped || t->regs.cs != USER_CS ||
		    attach_is_worker(h, t->tid))
			continue;
		cost = (has_seccomp(h, t->tid) ? 2 : 0) +
		       (rseq_abort(h, t) ? 1 : 0);
		if (cost < best_cost) {
			best = t;
			best_cost = cost;
		}
	}
	return best;
}

/* Trying whether the filter lets the calls through could kill the target. */
static int suspend_seccomp(const struct injection *in)
{
	const struct attach_helper *h = in->helper;
	long err;

	if (!has_seccomp(h, in->thread->tid))
		return 0;
	err = sys_ptrace(PTRACE_SETOPTIONS, in->thread->tid, 0,
			 PTRACE_O_TRACESYSGOOD | O_SUSPEND_SECCOMP);
	if (!err)
		return 0;
	return attach_error((int)err, SNAP_FAILURE_REFUSED,
			    "process %d has a seccomp filter, and suspending "
			    "it takes CAP_SYS_ADMIN and "
			    "CONFIG_CHECKPOINT_RESTORE",
			    h->target->pid);
}

/* Would turn our system call into a SIGSYS, as Wine does it. */
static void suspend_dispatch(struct injection *in)
{
	static const uint64_t off[4];
	pid_t tid = in->thread->tid;

	if (sys_ptrace(GET_SYSCALL_USER_DISPATCH, tid, sizeof(in->dispatch),
		       (uintptr_t)&in->dispatch) ||
	    !in->dispatch.mode)
		return;
	in->syscall_dispatch = !sys_ptrace(SET_SYSCALL_USER_DISPATCH, tid,
					   sizeof(off), (uintptr_t)off);
}

int inject_begin(struct injection *in, struct attach_helper *h)
{
	const uint64_t all = ~UINT64_C(0);
	uint64_t abort_at;
	pid_t tid;
	int err;

	*in = (struct injection){.helper = h, .thread = choose_thread(h)};
	if (!in->thread)
		return error_set(-ENOTSUP, SNAP_FAILURE_REFUSED,
				 "process %d has no thread that runs 64-bit "
				 "code",
				 h->target->pid);
	tid = in->thread->tid;
	err = suspend_seccomp(in);
	if (err)
		return err;
	if (sys_ptrace(PTRACE_GETSIGMASK, tid, SIGSET_BYTES,
		       (uintptr_t)&in->sigmask) ||
	    sys_ptrace(PTRACE_SETSIGMASK, tid, SIGSET_BYTES, (uintptr_t)&all))
		return error_set(-ESRCH, SNAP_FAILURE_GONE,
				 "process %d has ended", h->target->pid);
	suspend_dispatch(in);
	/* What the kernel does to a section at any preemption. */
	abort_at = rseq_abort(h, in->thread);
	if (abort_at)
		in->thread->regs.rip = abort_at;
	return 0;
}

/*
 * Run until the next stop at a system call.  A thread can get no signal but
 * SIGSTOP now, which stops its process: passed on, and it runs nevertheless as
 * it is traced; the kernel stops it again when it is let go.
 */
static int run_to_syscall(struct injection *in, uint64_t deadline)
{
	pid_t tid = in->thread->tid;
	int status, err, sig = 0;

	for (;;) {
		if (sys_ptrace(PTRACE_SYSCALL, tid, 0, (uintptr_t)sig))
			return -ESRCH;
		err = attach_wait(tid, &status, deadline);
		if (err == -ETIMEDOUT)
			return err;
		if (err || !WIFSTOPPED(status))
			return -ESRCH;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			return 0;
		sig = status >> 16 ? 0 : WSTOPSIG(status);
	}
}

/* It never ran, so nothing has happened that could not be put back. */
static void take_back(struct injection *in)
{
	struct tracee stopped = {.tid = in->thread->tid};

	sys_ptrace(PTRACE_INTERRUPT, stopped.tid, 0, 0);
	attach_settle(&stopped, 0);
}

static int64_t lose(struct injection *in, int err)
{
	in->lost = true;
	if (err == -ETIMEDOUT)
		take_back(in);
	else
		in->thread->gone = true;
	return err;
}

int64_t inject_syscall(struct injection *in, long nr,
		       const uint64_t args[static 6])
{
	struct user_regs_struct regs = in->thread->regs;
	pid_t tid = in->thread->tid;
	int err;

	if (in->lost)
		return -ESRCH;
	regs.rip = in->helper->target->gadget;
	regs.rax = (uint64_t)nr;
	regs.orig_rax = ~UINT64_C(0);
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	regs.eflags &= ~(uint64_t)EFLAGS_TRAP;
	if (sys_ptrace(PTRACE_SETREGS, tid, 0, (uintptr_t)&regs))
		return lose(in, -ESRCH);
	/* Once begun there is no way back but through: only the first call may
	 * not come about. */
	err = run_to_syscall(in, in->begun ? 0 : now_ns() + ENTRY_WAIT_NS);
	in->begun = true;
	if (!err)
		err = run_to_syscall(in, 0);
	if (err)
		return lose(in, err);
	if (sys_ptrace(PTRACE_GETREGS, tid, 0, (uintptr_t)&regs))
		return lose(in, -ESRCH);
	return (int64_t)regs.rax;
}

int inject_end(struct injection *in)
{
	struct tracee *t = in->thread;

	if (t->gone)
		return -ESRCH;
	sys_ptrace(PTRACE_SETREGS, t->tid, 0, (uintptr_t)&t->regs);
	sys_ptrace(PTRACE_SETSIGMASK, t->tid, SIGSET_BYTES,
		   (uintptr_t)&in->sigmask);
	if (in->syscall_dispatch)
		sys_ptrace(SET_SYSCALL_USER_DISPATCH, t->tid,
			   sizeof(in->dispatch), (uintptr_t)&in->dispatch);
	/* Also ends the suspension of seccomp. */
	sys_ptrace(PTRACE_SETOPTIONS, t->tid, 0, PTRACE_O_TRACESYSGOOD);
	sys_ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
	sys_ptrace(PTRACE_CONT, t->tid, 0, 0);
	return attach_settle(t, 0);
}

/*
 * By the pidfd of the very thread, as threads can have descriptor tables of
 * their own, and a first thread that ended has none.
 */
int inject_steal_fd(const struct injection *in, int fd)
{
	const struct attach_target *target = in->helper->target;
	pid_t tid = in->thread->tid;
	int pidfd = sys_pidfd_open(tid, PIDFD_FOR_THREAD);
	int got;

	if (pidfd >= 0) {
		got = sys_pidfd_getfd(pidfd, fd);
		sys_close(pidfd);
		return got;
	}
	/* Before 6.9 a pidfd stands for the first thread. */
	if (tid != target->pid && sys_kcmp_files(tid, target->pid) != 0)
		return -ENOTSUP;
	return sys_pidfd_getfd(target->pidfd, fd);
}

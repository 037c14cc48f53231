// SPDX-License-Identifier: MIT
/* Processes that are attached to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attach_targets.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void nap_us(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

int prey_skip(void)
{
	puts("skipped: the thread sanitizer has a thread and mappings of its "
	     "own in each target");
	return 77;
}

void prey_start(struct attach_prey *p, target_body body)
{
	pid_t test = getpid();

	p->board = mmap(NULL, sizeof(*p->board), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(p->board != MAP_FAILED);
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (!p->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != test)
			_exit(1);
		body(p->board);
		_exit(0);
	}
	if (!board_wait(&p->board->ready, 1))
		fail_msg("the target did not get ready");
}

void prey_stop(struct attach_prey *p)
{
	kill(p->pid, SIGKILL);
	assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
	munmap(p->board, sizeof(*p->board));
}

bool board_wait(_Atomic uint32_t *word, uint32_t at_least)
{
	for (unsigned i = 0; i < 50000; i++) {
		if (atomic_load(word) >= at_least)
			return true;
		nap_us(100);
	}
	return false;
}

bool board_alive(struct board *b, unsigned lanes)
{
	for (unsigned i = 0; i < lanes; i++) {
		uint64_t was = atomic_load(&b->lane[i]);
		unsigned tries = 0;

		while (atomic_load(&b->lane[i]) == was)
			if (tries++ < 20000)
				nap_us(100);
			else
				return false;
	}
	return true;
}

/*
 * Known values in the callee-saved registers, the argument registers and an
 * SSE register over a few thousand turns.  Returns how many were lost.
 */
static unsigned long check_registers(void)
{
	unsigned long wrong = 0;

	__asm__ volatile("movq $0x1111, %%rax; movq %%rax, %%xmm7\n\t"
			 "movq $0x2222, %%r8;  movq $0x3333, %%r9\n\t"
			 "movq $0x4444, %%r10; movq $0x5555, %%r12\n\t"
			 "movq $0x6666, %%r13; movq $0x7777, %%r14\n\t"
			 "movq $0x8888, %%rdi; movq $0x9999, %%rsi\n\t"
			 "movq $2000, %%rcx\n"
			 "1:\n\t"
			 "movq %%xmm7, %%rax\n\t"
			 "cmpq $0x1111, %%rax; jne 2f\n\t"
			 "cmpq $0x2222, %%r8;  jne 2f\n\t"
			 "cmpq $0x3333, %%r9;  jne 2f\n\t"
			 "cmpq $0x4444, %%r10; jne 2f\n\t"
			 "cmpq $0x5555, %%r12; jne 2f\n\t"
			 "cmpq $0x6666, %%r13; jne 2f\n\t"
			 "cmpq $0x7777, %%r14; jne 2f\n\t"
			 "cmpq $0x8888, %%rdi; jne 2f\n\t"
			 "cmpq $0x9999, %%rsi; jne 2f\n\t"
			 "decq %%rcx; jnz 1b\n\t"
			 "jmp 3f\n"
			 "2:\n\t"
			 "movq $1, %[wrong]\n"
			 "3:"
			 : [wrong] "+d"(wrong)
			 :
			 : "rax", "rcx", "rdi", "rsi", "r8", "r9", "r10", "r12",
			   "r13", "r14", "xmm7", "cc");
	return wrong;
}

struct lane {
	struct board *board;
	unsigned index;
};

static void *spin(void *arg)
{
	struct lane *l = arg;
	struct board *b = l->board;

	for (;;) {
		atomic_fetch_add(&b->trouble, (uint32_t)check_registers());
		atomic_fetch_add(&b->lane[l->index], 1);
		nap_us(20);
	}
	return NULL;
}

void start_spinner(struct board *b, unsigned lane)
{
	struct lane *l = malloc(sizeof(*l));
	pthread_t thread;

	*l = (struct lane){b, lane};
	if (pthread_create(&thread, NULL, spin, l))
		atomic_fetch_add(&b->trouble, 1);
}

static void spin_lanes(struct board *b, unsigned lanes)
{
	struct lane first = {b, 0};

	for (unsigned i = 1; i < lanes; i++)
		start_spinner(b, i);
	atomic_store(&b->ready, 1);
	spin(&first);
}

void body_spin_1(struct board *b)
{
	spin_lanes(b, 1);
}

void body_spin_5(struct board *b)
{
	spin_lanes(b, 5);
}

void body_pause(struct board *b)
{
	cpu_set_t one;

	/* The kernel keeps the number of the CPU in the thread's rseq area. */
	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	atomic_store(&b->ready, 1);
	for (;;)
		pause();
}

static void *short_life(void *arg)
{
	unsigned turns = *(unsigned *)arg;

	for (unsigned i = 0; i < turns; i++)
		if (check_registers())
			return (void *)1;
	return NULL;
}

void body_storm(struct board *b)
{
	start_spinner(b, 1);
	atomic_store(&b->ready, 1);
	for (unsigned round = 0;; round++) {
		pthread_t threads[4];
		unsigned turns = round % 7;
		void *wrong;

		for (unsigned i = 0; i < 4; i++)
			if (pthread_create(&threads[i], NULL, short_life,
					   &turns))
				_exit(2);
		for (unsigned i = 0; i < 4; i++) {
			pthread_join(threads[i], &wrong);
			atomic_fetch_add(&b->trouble, wrong != NULL);
			atomic_fetch_add(&b->beats, 1);
		}
		atomic_fetch_add(&b->lane[0], 1);
		nap_us(50);
	}
}

static uint64_t status_field(const char *path, const char *field, int base)
{
	FILE *f = fopen(path, "r");
	size_t n = strlen(field);
	uint64_t value = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, field, n) && line[n] == ':')
			value = strtoull(line + n + 1, NULL, base);
	if (f)
		fclose(f);
	return value;
}

uint64_t prey_status(pid_t pid, const char *field, int base)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return status_field(path, field, base);
}

/* Of any thread. */
static uint64_t find_tracer(pid_t pid)
{
	uint64_t tracer = 0;
	struct dirent *e;
	char path[400];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && !tracer && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid,
			 e->d_name);
		tracer = status_field(path, "TracerPid", 10);
	}
	if (d)
		closedir(d);
	return tracer;
}

static void count_fds(pid_t pid, struct prey_census *c)
{
	char path[400], name[64];
	struct dirent *e;
	ssize_t n;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		c->fds++;
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, e->d_name);
		n = readlink(path, name, sizeof(name) - 1);
		name[n > 0 ? n : 0] = '\0';
		c->userfaultfds += !strcmp(name, "anon_inode:[userfaultfd]");
	}
	if (d)
		closedir(d);
}

static uint64_t checksum(int mem, uint64_t start, uint64_t end)
{
	uint64_t page[512], sum = 0;

	for (uint64_t at = start; at < end; at += sizeof(page))
		if (pread(mem, page, sizeof(page), (off_t)at) == sizeof(page))
			for (unsigned i = 0; i < 512; i++)
				sum = sum * 31 + page[i];
	return sum;
}

static void sum_mappings(pid_t pid, struct prey_census *c)
{
	char path[64], line[512], mode[8];
	uint64_t start, end;
	FILE *f;
	int mem;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &end,
			   mode) != 3)
			continue;
		c->mappings++;
		/* Not a sanitizer's shadow, which is terabytes of nothing. */
		if (!strcmp(mode, "rw-p") && end - start < 64 << 20)
			c->memory += checksum(mem, start, end);
	}
	if (f)
		fclose(f);
	close(mem);
}

void prey_census(pid_t pid, struct prey_census *c, bool with_memory)
{
	*c = (struct prey_census){
		.threads = (unsigned)prey_status(pid, "Threads", 10),
		.tracer = find_tracer(pid),
		.pending = prey_status(pid, "SigPnd", 16) |
			   prey_status(pid, "ShdPnd", 16),
	};
	count_fds(pid, c);
	if (with_memory)
		sum_mappings(pid, c);
}

void expect_census(const struct prey_census *before,
		   const struct prey_census *after)
{
	assert_int_equal(after->fds, before->fds);
	assert_int_equal(after->userfaultfds, before->userfaultfds);
	assert_int_equal(after->threads, before->threads);
	assert_int_equal(after->mappings, before->mappings);
	assert_int_equal(after->tracer, before->tracer);
	assert_int_equal(after->pending, before->pending);
	assert_true(after->memory == before->memory);
}

void prey_wait_asleep(pid_t pid, pid_t tid)
{
	char path[64], line[512], *p, state = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	for (unsigned i = 0; i < 5000 && state != 'S'; i++) {
		FILE *f = fopen(path, "r");

		if (f && fgets(line, sizeof(line), f) &&
		    (p = strrchr(line, ')')))
			state = p[2];
		if (f)
			fclose(f);
		nap_us(1000);
	}
	assert_int_equal(state, 'S');
}

void prey_registers(pid_t tid, struct user_regs_struct *regs)
{
	int status;

	assert_int_equal(ptrace(PTRACE_SEIZE, tid, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
	assert_int_equal(waitpid(tid, &status, __WALL), tid);
	assert_int_equal(ptrace(PTRACE_GETREGS, tid, NULL, regs), 0);
	assert_int_equal(ptrace(PTRACE_DETACH, tid, NULL, NULL), 0);
}

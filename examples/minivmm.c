// SPDX-License-Identifier: MIT
/*
 * minivmm - a virtual machine monitor of one file, whose guest is saved while
 * it runs, brought back, and found to be exactly where it was.
 *
 *	minivmm save guest.snap		# run a guest and save it meanwhile
 *	minivmm restore guest.snap	# bring it back and let it go on
 *
 * How it works.
 *
 * The guest is one virtual CPU and one piece of RAM; nothing else.  It does
 * one thing for ever: at step n it stores the number n in one word of its RAM,
 * and all words take their turns, in scattered pages (part 2).  As each step is
 * a function of n alone, somebody who knows how many steps were made knows what
 * every word of the RAM must hold.  The number of steps is in a register; so
 * RAM and registers of *one instant* fit together, and RAM and registers of
 * two different instants do not, if only by one store.  That is the check
 * which shows that a snapshot is exact (part 4).
 *
 * Two threads: main() and the one that the virtual CPU runs in (part 3).  The
 * guest never leaves by itself; main() has it stopped and started.
 *
 * Read it from top to bottom:
 *
 *	1  a machine		3  its CPU in a thread	5  saving it
 *	2  its program		4  the check		6  bringing it back
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <libsnap.h>
#include <linux/kvm.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define HUGE_BYTES (2 * MIB)
#define PAGE_WORDS 512 /* of 8 bytes */

enum exit_code { EXIT_OK = 0, EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_SKIP = 77 };

/* What the RAM is made of: the host decides, the guest cannot tell. */
enum backing { BACKING_ANON, BACKING_THP, BACKING_MEMFD, BACKING_HUGETLB };
static const char *const backing_names[] = {"anon", "thp", "memfd", "hugetlb",
					    NULL};

/* What to spoil before a check, to see that the check can fail. */
enum corrupt { CORRUPT_NOTHING, CORRUPT_BIT, CORRUPT_STEP };
static const char *const corrupt_names[] = {"nothing", "bit", "step", NULL};

static const char *const compress_names[] = {"default", "none", "zstd", NULL};

struct settings {
	const char *image;
	size_t mem; /* bytes */
	enum backing backing;
	enum snap_compress compress;
	enum corrupt corrupt;
	double seconds; /* to run before the snapshot, or after the restore */
	FILE *log;	/* where the story goes: stderr if stdout is JSON */
	bool json;
};

/* The CPU's whole state here.  A real machine has more: FPU and vector
 * registers, MSRs, pending interrupts, the clock.  This guest uses none. */
struct cpu_state {
	struct kvm_regs regs;
	struct kvm_sregs sregs;
};

struct machine {
	uint8_t *ram;
	size_t mem;
	int kvm, vm, vcpu;
	struct kvm_run *run; /* shared with the kernel */
	pthread_t thread;    /* of the CPU */
	bool started;
	sem_t stopped, go; /* what it says, and what main() says to it */
	bool end;	   /* set before go */
	bool dead;	   /* set before stopped */
};

/* Say why on stderr; returns -1 so that callers can return it. */
__attribute__((format(printf, 1, 2))) static int fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("minivmm: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	return -1;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- 1. A machine ------------------------------------------------------- */

/* Guest RAM is ordinary memory of this process. */
static int ram_create(struct machine *m, enum backing backing)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, fd = -1;
	uint8_t *p;

	if (backing == BACKING_HUGETLB)
		flags |= MAP_HUGETLB | (21 << MAP_HUGE_SHIFT);
	if (backing == BACKING_MEMFD) {
		flags = MAP_SHARED;
		fd = memfd_create("guest-ram", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)(m->mem + HUGE_BYTES)))
			return fail("no memfd for the RAM: %s",
				    strerror(errno));
	}
	/* 2 MiB more than needed: RAM that starts where a huge page does can
	 * consist of whole huge pages.  hugetlb starts there by itself. */
	p = mmap(NULL, m->mem + (backing == BACKING_HUGETLB ? 0 : HUGE_BYTES),
		 PROT_READ | PROT_WRITE, flags, fd, 0);
	if (fd >= 0)
		close(fd); /* the mapping keeps the file */
	if (p == MAP_FAILED)
		return fail("no memory for the RAM: %s%s", strerror(errno),
			    backing == BACKING_HUGETLB
				    ? "; raise /proc/sys/vm/nr_hugepages"
				    : "");
	p += -(uintptr_t)p % HUGE_BYTES;
	m->ram = p;
	if (backing == BACKING_ANON)
		(void)madvise(p, m->mem, MADV_NOHUGEPAGE);
	if (backing == BACKING_THP)
		(void)madvise(p, m->mem, MADV_HUGEPAGE);
	return 0;
}

/* The three things KVM gives: a machine, a CPU in it, RAM at address 0. */
static int machine_create(struct machine *m, size_t mem, enum backing backing)
{
	struct kvm_userspace_memory_region slot = {.memory_size = mem};
	int size;

	m->mem = mem;
	if (ram_create(m, backing))
		return -1;
	m->vm = ioctl(m->kvm, KVM_CREATE_VM, 0);
	if (m->vm < 0)
		return fail("KVM makes no machine: %s", strerror(errno));
	slot.userspace_addr = (uintptr_t)m->ram; /* guest_phys_addr is 0 */
	if (ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, &slot))
		return fail("KVM does not take the RAM: %s", strerror(errno));
	m->vcpu = ioctl(m->vm, KVM_CREATE_VCPU, 0);
	size = ioctl(m->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (m->vcpu < 0 || size < 0)
		return fail("KVM makes no CPU: %s", strerror(errno));
	m->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED,
		      m->vcpu, 0);
	if (m->run == MAP_FAILED)
		return fail("cannot map the CPU: %s", strerror(errno));
	return 0;
}

static int cpu_get(struct machine *m, struct cpu_state *cpu)
{
	memset(cpu, 0, sizeof(*cpu));
	if (ioctl(m->vcpu, KVM_GET_REGS, &cpu->regs) ||
	    ioctl(m->vcpu, KVM_GET_SREGS, &cpu->sregs))
		return fail("cannot read the CPU: %s", strerror(errno));
	return 0;
}

static int cpu_set(struct machine *m, const struct cpu_state *cpu)
{
	if (ioctl(m->vcpu, KVM_SET_SREGS, &cpu->sregs) ||
	    ioctl(m->vcpu, KVM_SET_REGS, &cpu->regs))
		return fail("cannot set the CPU: %s", strerror(errno));
	return 0;
}

/* ---- 2. Its program ----------------------------------------------------- */

/*
 * The guest's RAM:
 *
 *	0x001000  page tables: one of level 4, one of level 3, then one of
 *		  level 2 for each GiB, whose entries are 2 MiB pages
 *	0x010000  the program
 *	0x200000  the field: all the rest, words of 8 bytes
 *
 * The RAM ends below 3 GiB, where a PC's devices would begin.
 */
enum {
	GUEST_TABLES = 0x1000,
	GUEST_CODE = 0x10000,
	GUEST_FIELD = 0x200000, /* = HUGE_BYTES */
};
#define MEM_MAX (3072 * MIB)

/*
 * The program fills a page word by word, then leaps to another one.  All its
 * variables are registers:
 *
 *	rcx  n, the number of this step
 *	rdi  p, the word that this step writes
 *	rsi  leap, from behind a page to the next one's beginning, in words
 *	rbx  words, how many the field has
 *	r8   the address of the field
 */
static const uint8_t guest_code[] = {
	0x48, 0xff, 0xc1,	      /* 00 step:  inc  rcx           */
	0x48, 0xff, 0xc7,	      /* 03        inc  rdi           */
	0xf7, 0xc7, 0xff, 0x01, 0, 0, /* 06        test edi, 511      */
	0x75, 0x0b,		      /* 0c        jnz  store         */
	0x48, 0x01, 0xf7,	      /* 0e        add  rdi, rsi      */
	0x48, 0x39, 0xdf,	      /* 11        cmp  rdi, rbx      */
	0x72, 0x03,		      /* 14        jb   store         */
	0x48, 0x29, 0xdf,	      /* 16        sub  rdi, rbx      */
	0x49, 0x89, 0x0c, 0xf8,	      /* 19 store: mov  [r8+8*rdi], rcx */
	0xeb, 0xe1,		      /* 1d        jmp  step          */
};
enum { CODE_STEP = 0x00, CODE_STORE = 0x19 };

/* The field seen from outside. */
struct field {
	uint64_t words, pages;
	uint64_t stride; /* from a page to the next one written to */
};

/*
 * The golden section of the field: steps of that size scatter evenly.  Without
 * a divisor in common with the number of pages they come to every page before
 * they come to one twice.
 */
static struct field field_of(size_t mem)
{
	struct field f = {.words = (mem - GUEST_FIELD) / 8};
	uint64_t a, b, r;

	f.pages = f.words / PAGE_WORDS;
	f.stride = f.pages * 618 / 1000;
	do {
		f.stride++;
		for (a = f.pages, b = f.stride; b; a = b, b = r)
			r = a % b;
	} while (a != 1);
	return f;
}

/* The word that step @n writes. */
static uint64_t field_place(const struct field *f, uint64_t n)
{
	uint64_t page = n / PAGE_WORDS % f->pages * f->stride % f->pages;

	return page * PAGE_WORDS + n % PAGE_WORDS;
}

/* What the RAM below the field holds, from power-on to the end. */
static void guest_load(uint8_t *ram, size_t mem)
{
	/* Present, writable, user; accessed and dirty are set beforehand so
	 * that the CPU has no reason to change the tables. */
	const uint64_t entry = 0x01 | 0x02 | 0x04 | 0x20 | 0x40, huge = 0x80;
	uint64_t *table = (uint64_t *)(ram + GUEST_TABLES);
	uint64_t gib, i;

	table[0] = (GUEST_TABLES + 0x1000) | entry;
	for (gib = 0; gib < MEM_MAX >> 30; gib++)
		table[512 + gib] =
			(GUEST_TABLES + 0x2000 + gib * 0x1000) | entry;
	for (i = 0; i < mem / HUGE_BYTES; i++) /* address in = address out */
		table[1024 + i] = i * HUGE_BYTES | entry | huge;
	memcpy(ram + GUEST_CODE, guest_code, sizeof(guest_code));
}

/* The CPU at power-on: at once in 64-bit mode, at the program's first byte.
 * It runs as user code, which every kind of KVM executes natively. */
static int guest_boot(struct machine *m)
{
	const struct field f = field_of(m->mem);
	struct cpu_state cpu;
	struct kvm_segment seg;

	if (cpu_get(m, &cpu))
		return -1;
	seg = cpu.sregs.ds;
	seg.selector = 0x23;
	seg.dpl = 3; /* user */
	seg.limit = 0xffffffff;
	seg.g = 1;
	cpu.sregs.ds = cpu.sregs.es = cpu.sregs.fs = seg;
	cpu.sregs.gs = cpu.sregs.ss = seg;
	seg.selector = 0x2b;
	seg.type = 11; /* code */
	seg.l = 1;     /* 64 bits */
	cpu.sregs.cs = seg;
	cpu.sregs.tr.type = 11;	     /* a 64-bit task, as the mode demands */
	cpu.sregs.cr0 |= 0x80000021; /* paging, numeric error, protection */
	cpu.sregs.cr3 = GUEST_TABLES;
	cpu.sregs.cr4 |= 0x20;	 /* physical address extension */
	cpu.sregs.efer |= 0x500; /* long mode: enabled, active */
	cpu.regs = (struct kvm_regs){
		.rip = GUEST_CODE,
		.rflags = 2,
		.rbx = f.words,
		.rsi = (f.stride - 1) * PAGE_WORDS,
		.r8 = GUEST_FIELD,
	};
	return cpu_set(m, &cpu);
}

/* ---- 3. Its CPU in a thread --------------------------------------------- */

/* The signal's only use is to interrupt the ioctl. */
static void kicked(int sig)
{
}

static void *cpu_thread(void *arg)
{
	struct machine *m = arg;

	for (;;) {
		if (ioctl(m->vcpu, KVM_RUN, 0) == 0 ||
		    (errno != EINTR && errno != EAGAIN))
			break;
		if (!__atomic_load_n(&m->run->immediate_exit, __ATOMIC_SEQ_CST))
			continue; /* a signal that is none of ours */
		sem_post(&m->stopped);
		while (sem_wait(&m->go))
			continue;
		if (__atomic_load_n(&m->end, __ATOMIC_SEQ_CST))
			return NULL;
	}
	/* This guest does no I/O and never halts. */
	fail("the guest came out of KVM_RUN: exit reason %u",
	     m->run->exit_reason);
	m->dead = true;
	sem_post(&m->stopped);
	return NULL;
}

static int cpu_start(struct machine *m)
{
	struct sigaction sa = {.sa_handler = kicked}; /* no SA_RESTART */

	if (sigaction(SIGUSR1, &sa, NULL) || sem_init(&m->stopped, 0, 0) ||
	    sem_init(&m->go, 0, 0))
		return fail("cannot start the CPU: %s", strerror(errno));
	errno = pthread_create(&m->thread, NULL, cpu_thread, m);
	if (errno)
		return fail("no thread for the CPU: %s", strerror(errno));
	m->started = true;
	return 0;
}

/*
 * Get the CPU out of the guest.  The signal interrupts a KVM_RUN that has
 * begun; immediate_exit, set before, lets one that is about to begin return at
 * once.  Either alone would leave a gap.
 */
static void cpu_kick(struct machine *m)
{
	__atomic_store_n(&m->run->immediate_exit, 1, __ATOMIC_SEQ_CST);
	pthread_kill(m->thread, SIGUSR1);
}

/* When it returns 0 the CPU stands still between two instructions. */
static int cpu_pause(struct machine *m)
{
	cpu_kick(m);
	while (sem_wait(&m->stopped))
		continue;
	return m->dead ? -1 : 0;
}

static void cpu_resume(struct machine *m)
{
	__atomic_store_n(&m->run->immediate_exit, 0, __ATOMIC_SEQ_CST);
	sem_post(&m->go);
}

/* Also right when the CPU is paused, or dead.  Descriptors and memory go with
 * the process, which ends here. */
static void machine_destroy(struct machine *m)
{
	if (!m->started)
		return;
	__atomic_store_n(&m->end, true, __ATOMIC_SEQ_CST);
	cpu_kick(m);
	sem_post(&m->go);
	pthread_join(m->thread, NULL);
}

/* ---- 4. The check ------------------------------------------------------- */

/*
 * How many stores has the guest made?  n is counted up at the beginning of a
 * step and stored at its end; in between the instruction pointer tells.
 */
static uint64_t steps_done(const struct kvm_regs *r)
{
	uint64_t at = r->rip - GUEST_CODE;

	return at > CODE_STEP && at <= CODE_STORE ? r->rcx - 1 : r->rcx;
}

/* Do the registers fit together? */
static bool registers_agree(const struct kvm_regs *r, const struct field *f)
{
	uint64_t at = r->rip - GUEST_CODE;

	if (at > CODE_STEP && at < CODE_STORE) /* p is on its way */
		return r->rdi < 2 * f->words;
	return at < sizeof(guest_code) && r->rdi == field_place(f, r->rcx);
}

/* The first wrong word is told, all are counted. */
static void mismatch(uint64_t *count, uint64_t at, uint64_t is, uint64_t should)
{
	if ((*count)++ == 0)
		fail("the word at 0x%" PRIx64 " holds %" PRIu64
		     ", but the guest's steps left %" PRIu64 " there",
		     at, is, should);
}

/*
 * Walk the guest's steps backwards from the last one.  As many steps as there
 * are words come to each word once, and nothing was written to it since; so
 * the word of step n must hold n, or 0 if the guest has not come so far.
 */
static uint64_t field_mismatches(const struct machine *m, const struct field *f,
				 uint64_t done)
{
	const uint64_t *field = (const uint64_t *)(m->ram + GUEST_FIELD);
	uint64_t count = 0, i, p, n;

	for (i = 0; i < f->words; i++) {
		n = done > i ? done - i : 0;
		p = field_place(f, done + f->words - i);
		if (field[p] != n)
			mismatch(&count, GUEST_FIELD + 8 * p, field[p], n);
	}
	return count;
}

/* Tables and program must be as they were loaded, and zero between them. */
static uint64_t boot_mismatches(const struct machine *m)
{
	const uint64_t *is = (const uint64_t *)m->ram;
	static uint64_t expected[GUEST_FIELD / 8];
	uint64_t count = 0, i;

	guest_load((uint8_t *)expected, m->mem);
	for (i = 0; i < GUEST_FIELD / 8; i++)
		if (is[i] != expected[i])
			mismatch(&count, 8 * i, is[i], expected[i]);
	return count;
}

/* Is the RAM, to the word, what it must be for these registers? */
static int check(struct machine *m, const struct settings *set,
		 const char *what, const struct kvm_regs *regs)
{
	const struct field f = field_of(m->mem);
	uint64_t done = steps_done(regs), wrong;

	if (!registers_agree(regs, &f))
		return fail("%s: the registers contradict each other", what);
	if (set->corrupt == CORRUPT_BIT)
		m->ram[m->mem / 2] ^= 1;
	if (set->corrupt == CORRUPT_STEP)
		done++; /* as if one store had been lost */
	wrong = boot_mismatches(m) + field_mismatches(m, &f, done);
	fprintf(set->log,
		"%s: n %llu, rip 0x%llx, %zu words checked, %" PRIu64
		" mismatches\n",
		what, regs->rcx, regs->rip, m->mem / 8, wrong);
	if (wrong)
		return fail("%s: the RAM is not that of one instant", what);
	return 0;
}

/* ---- 5. Saving it ------------------------------------------------------- */

/* Let the guest run @seconds, and until it has made @steps. */
static int run_for(struct machine *m, double seconds, uint64_t steps)
{
	const double start = now();
	struct cpu_state cpu;

	do {
		usleep(20000);
		if (cpu_pause(m) || cpu_get(m, &cpu))
			return -1;
		cpu_resume(m);
	} while (cpu.regs.rcx < steps || now() - start < seconds);
	return 0;
}

/* Everything that may take time before the pause: the guest runs. */
static int snapshot_prepare(struct machine *m, const struct settings *set,
			    struct snap **out)
{
	const struct snap_options opts = {.size = sizeof(opts),
					  .output = set->image,
					  .compress = set->compress};
	const struct snap_region ram = {.size = sizeof(ram),
					.name = "ram",
					.addr = m->ram,
					.length = m->mem};

	if (snap_create(out, &opts) || snap_add_region(*out, &ram) ||
	    snap_prepare(*out))
		return fail("cannot prepare the snapshot: %s",
			    snap_error_message());
	return 0;
}

/*
 * The snapshot point.  The guest stands still while its registers are read and
 * its RAM is protected, and runs on before anything has been saved.
 */
static int snapshot_begin(struct machine *m, struct snap *s,
			  struct cpu_state *cpu, double *pause)
{
	const double start = now();
	int err;

	if (cpu_pause(m))
		return -1;
	err = cpu_get(m, cpu);
	if (!err && (snap_add_device_state(s, "vcpu0", cpu, sizeof(*cpu)) ||
		     snap_begin(s)))
		err = fail("cannot begin the snapshot: %s",
			   snap_error_message());
	cpu_resume(m);
	*pause = now() - start;
	return err;
}

static void print_progress(struct snap *s, FILE *log)
{
	struct snap_stats st = {.size = sizeof(st)};

	if (snap_get_stats(s, &st))
		return;
	fprintf(log,
		"  %" PRIu64 " pages saved because the guest wrote to them, "
		"%" PRIu64 " in the background, of %" PRIu64 "\n",
		st.pages_by_fault, st.pages_by_sweep + st.pages_in_pause,
		st.pages_total - st.pages_absent);
}

/* A VMM has a loop like this one anyway; the snapshot is one more descriptor
 * in it.  Returns 0 when the image is complete. */
static int snapshot_follow(struct snap *s, FILE *log)
{
	struct pollfd pfd = {.fd = snap_fd(s), .events = POLLIN};
	int n, err = -EINPROGRESS;

	while (err == -EINPROGRESS) {
		n = poll(&pfd, 1, 200);
		if (n < 0 && errno != EINTR)
			return fail("poll: %s", strerror(errno));
		if (n == 0)
			print_progress(s, log);
		if (n > 0)
			err = snap_process(s);
	}
	print_progress(s, log);
	if (err)
		return fail("the snapshot failed: %s", snap_error_message());
	return 0;
}

/* One object on stdout, for scripts. */
static void print_json(const struct machine *m, struct snap *s,
		       const struct cpu_state *begin,
		       const struct cpu_state *end)
{
	char *stats = s ? snap_stats_json(s) : NULL;

	printf("{\"mem_mib\":%zu,\"words\":%zu,\"mismatches\":0,"
	       "\"n_begin\":%llu,\"n_end\":%llu,\"snapshot\":%s}\n",
	       m->mem / MIB, m->mem / 8, begin->regs.rcx, end->regs.rcx,
	       stats ? stats : "null");
	free(stats);
}

static int save_running(struct machine *m, const struct settings *set,
			struct snap **s)
{
	struct cpu_state begin, end, later;
	double pause;

	fprintf(set->log, "The guest writes to its %zu MiB of RAM (%s).\n",
		m->mem / MIB, backing_names[set->backing]);
	if (run_for(m, set->seconds, m->mem / 8) || /* to every word once */
	    snapshot_prepare(m, set, s) ||
	    snapshot_begin(m, *s, &begin, &pause))
		return -1;
	fprintf(set->log,
		"Paused for %.1f ms at n %llu, rip 0x%llx; it runs again.\n",
		pause * 1e3, begin.regs.rcx, begin.regs.rip);
	if (snapshot_follow(*s, set->log))
		return -1;

	if (cpu_pause(m) || cpu_get(m, &end))
		return -1;
	fprintf(set->log, "Meanwhile the guest made %llu steps.\n",
		end.regs.rcx - begin.regs.rcx);
	cpu_resume(m);

	/* The image is on disk.  Did the guest lose anything by it? */
	if (run_for(m, 0, end.regs.rcx + 1) || cpu_pause(m) ||
	    cpu_get(m, &later) || check(m, set, "live RAM", &later.regs))
		return -1;
	if (set->json)
		print_json(m, *s, &begin, &end);
	return 0;
}

/* A fresh machine; then as above, and whatever came of it is cleaned up. */
static int save(struct machine *m, const struct settings *set)
{
	struct snap *s = NULL;
	int err;

	if (machine_create(m, set->mem, set->backing))
		return -1;
	guest_load(m->ram, m->mem);
	if (guest_boot(m) || cpu_start(m))
		return -1;
	err = save_running(m, set, &s);
	snap_destroy(s);
	return err;
}

/* ---- 6. Bringing it back ------------------------------------------------ */

/* A machine of the image's shape, with the image's RAM and registers. */
static int machine_restore(struct machine *m, const struct settings *set,
			   struct snap_image *img, struct cpu_state *cpu)
{
	struct snap_image_region ram = {.size = sizeof(ram)};
	const void *data;
	size_t length;

	if (snap_image_get_region(img, 0, &ram) ||
	    snap_image_find_device_state(img, "vcpu0", &data, &length))
		return fail("%s", snap_error_message());
	if (strcmp(ram.name, "ram") || length != sizeof(*cpu) ||
	    ram.length % HUGE_BYTES || ram.length <= GUEST_FIELD ||
	    ram.length > MEM_MAX)
		return fail("%s holds another kind of machine", set->image);
	memcpy(cpu, data, length);
	if (machine_create(m, ram.length, set->backing))
		return -1;
	if (snap_restore(img, 0, m->ram, m->mem, 0))
		return fail("cannot restore the RAM: %s", snap_error_message());
	return cpu_set(m, cpu);
}

static int restore(struct machine *m, const struct settings *set)
{
	struct snap_image *img;
	struct cpu_state was, is;
	int err;

	if (snap_image_open(&img, set->image))
		return fail("%s", snap_error_message());
	err = machine_restore(m, set, img, &was);
	snap_image_close(img);
	if (err || check(m, set, "restored RAM", &was.regs))
		return -1;

	/* It does not know that it was away. */
	if (cpu_start(m) || run_for(m, set->seconds, was.regs.rcx + 1) ||
	    cpu_pause(m) || cpu_get(m, &is))
		return -1;
	fprintf(set->log, "The guest went on and made %llu more steps.\n",
		is.regs.rcx - was.regs.rcx);
	if (check(m, set, "RAM after going on", &is.regs))
		return -1;
	if (set->json)
		print_json(m, NULL, &was, &is);
	return 0;
}

/* ---- The command line --------------------------------------------------- */

static int usage(void)
{
	fputs("usage: minivmm save|restore IMAGE [options]\n"
	      "  --mem MIB        RAM to save, even, 4 to 3072 (256)\n"
	      "  --backing KIND   anon, thp, memfd or hugetlb (anon)\n"
	      "  --seconds S      before the save (0) or after a restore "
	      "(0.5)\n"
	      "  --compress HOW   none or zstd (none)\n"
	      "  --json           an object on stdout, the rest on stderr\n"
	      "  --corrupt WHAT   spoil the checks: flip a bit, forget a step\n"
	      "exit: 0 exact, 1 failed or not exact, 2 usage, 77 no KVM here\n",
	      stderr);
	return EXIT_USAGE;
}

/* Index of @name in @names, -1 if it is none of them. */
static int choose(const char *const *names, const char *name)
{
	int i;

	for (i = 0; names[i]; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

/* False: the value is wrong. */
static bool parse_option(struct settings *set, int opt, const char *arg)
{
	char *end = "";
	int which = 0;

	switch (opt) {
	case 'm':
		set->mem = strtoul(arg, &end, 10);
		set->mem = set->mem <= MEM_MAX / MIB ? set->mem * MIB : 0;
		return !*end && set->mem % HUGE_BYTES == 0 &&
		       set->mem > GUEST_FIELD;
	case 's':
		set->seconds = strtod(arg, &end);
		return !*end && set->seconds >= 0 && set->seconds <= 3600;
	case 'b':
		set->backing = which = choose(backing_names, arg);
		return which >= 0;
	case 'c':
		set->compress = which = choose(compress_names, arg);
		return which >= 0;
	case 'x':
		set->corrupt = which = choose(corrupt_names, arg);
		return which >= 0;
	case 'j':
		set->json = true;
		set->log = stderr;
		return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"mem", required_argument, NULL, 'm'},
		{"backing", required_argument, NULL, 'b'},
		{"seconds", required_argument, NULL, 's'},
		{"compress", required_argument, NULL, 'c'},
		{"corrupt", required_argument, NULL, 'x'},
		{"json", no_argument, NULL, 'j'},
		{0},
	};
	struct settings set = {.mem = 256 * MIB, .log = stdout};
	struct machine m = {0};
	bool saving = argc > 1 && !strcmp(argv[1], "save");
	int opt, err;

	if (argc < 3 || (!saving && strcmp(argv[1], "restore")))
		return usage();
	set.seconds = saving ? 0 : 0.5;
	while ((opt = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1)
		if (!parse_option(&set, opt, optarg))
			return usage();
	if (optind + 1 != argc - 1)
		return usage();
	set.image = argv[optind + 1];
	setvbuf(stdout, NULL, _IOLBF, 0);

	m.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (m.kvm < 0 || ioctl(m.kvm, KVM_GET_API_VERSION, 0) < 0) {
		fail("no KVM: cannot use /dev/kvm: %s", strerror(errno));
		return EXIT_SKIP;
	}
	err = saving ? save(&m, &set) : restore(&m, &set);
	machine_destroy(&m);
	return err ? EXIT_WRONG : EXIT_OK;
}

// SPDX-License-Identifier: MIT
/*
 * A guest under KVM: one virtual CPU that runs flat_code.c from its first
 * instruction on, in 64-bit mode as user code, which also a KVM without
 * hardware virtualisation runs natively, with real page tables.
 *
 * How it works.  Two pieces of memory beside the RAM that is saved: page
 * tables, program and stack; and the station.  As in examples/minivmm.c the
 * CPU is stopped by a signal and by immediate_exit, since either alone would
 * leave a gap.  The guest's clock is the host's but for an offset, which is
 * read off its heartbeat.
 */
#include "guest.h"

#include "bench.h"
#include "flat.h"
#include "kvm_stats.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* flat_code.bin, by the linker. */
extern const uint8_t _binary_flat_code_bin_start[];
extern const uint8_t _binary_flat_code_bin_end[];

struct kvm_guest {
	int kvm, vm, vcpu;
	uint8_t *low;
	struct kvm_run *run;
	int run_len;
	pthread_t thread;
	sem_t stopped, go;
	bool end;
	struct kvm_stats vm_stats, vcpu_stats;
};

static void set_slot(struct kvm_guest *k, uint32_t slot, uint64_t gpa,
		     void *addr, size_t len)
{
	struct kvm_userspace_memory_region region = {
		.slot = slot,
		.guest_phys_addr = gpa,
		.memory_size = len,
		.userspace_addr = (uintptr_t)addr,
	};

	if (ioctl(k->vm, KVM_SET_USER_MEMORY_REGION, &region))
		die("KVM does not take the RAM: %s", strerror(errno));
}

static void load(struct kvm_guest *k)
{
	/* Present, writable, user; accessed and dirty are set beforehand so
	 * that the CPU has no reason to write to the tables. */
	const uint64_t entry = 0x01 | 0x02 | 0x04 | 0x20 | 0x40, huge = 0x80;
	uint64_t *table = (uint64_t *)(void *)(k->low + FLAT_TABLES);

	table[0] = (FLAT_TABLES + 0x1000) | entry;
	for (uint64_t gib = 0; gib < FLAT_GIB_MAX; gib++)
		table[512 + gib] =
			(FLAT_TABLES + 0x2000 + gib * 0x1000) | entry;
	for (uint64_t i = 0; i < FLAT_GIB_MAX * 512; i++)
		table[1024 + i] = i * BLOCK | entry | huge;
	memcpy(k->low + FLAT_CODE, _binary_flat_code_bin_start,
	       (size_t)(_binary_flat_code_bin_end -
			_binary_flat_code_bin_start));
}

static void make_cpu(struct kvm_guest *k)
{
	k->vcpu = ioctl(k->vm, KVM_CREATE_VCPU, 0);
	k->run_len = ioctl(k->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (k->vcpu < 0 || k->run_len < 0)
		die("KVM makes no CPU: %s", strerror(errno));
	k->run = mmap(NULL, (size_t)k->run_len, PROT_READ | PROT_WRITE,
		      MAP_SHARED, k->vcpu, 0);
	if (k->run == MAP_FAILED)
		die("cannot map the CPU: %s", strerror(errno));
}

/* The signal's only use is to interrupt the ioctl. */
static void kicked(int sig)
{
}

static void kvm_create(struct guest *g)
{
	struct kvm_guest *k = calloc(1, sizeof(*k));
	struct sigaction sa = {.sa_handler = kicked}; /* no SA_RESTART */

	if (!k)
		die("out of memory");
	if (g->ram.len > (size_t)(FLAT_GIB_MAX - 1) * GIB)
		die("--mem: a KVM guest has %d GiB at most", FLAT_GIB_MAX - 1);
	g->priv = k;
	k->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (k->kvm < 0)
		die("/dev/kvm: %s", strerror(errno));
	k->vm = ioctl(k->kvm, KVM_CREATE_VM, 0);
	if (k->vm < 0)
		die("KVM makes no machine: %s", strerror(errno));
	k->low = mmap(NULL, FLAT_LOW_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (k->low == MAP_FAILED)
		die("no memory for the page tables");
	load(k);
	set_slot(k, 0, 0, k->low, FLAT_LOW_BYTES);
	set_slot(k, 1, FLAT_STATION, g->station, STATION_BYTES);
	set_slot(k, 2, FLAT_RAM, g->ram.addr, g->ram.len);
	make_cpu(k);
	kvm_stats_open(&k->vm_stats, k->vm);
	kvm_stats_open(&k->vcpu_stats, k->vcpu);
	sem_init(&k->stopped, 0, 0);
	sem_init(&k->go, 0, 0);
	sigaction(SIGUSR1, &sa, NULL);
}

static void kvm_destroy(struct guest *g)
{
	struct kvm_guest *k = g->priv;

	kvm_stats_close(&k->vm_stats);
	kvm_stats_close(&k->vcpu_stats);
	munmap(k->run, (size_t)k->run_len);
	close(k->vcpu);
	close(k->vm);
	close(k->kvm);
	munmap(k->low, FLAT_LOW_BYTES);
	free(k);
}

/* ---- the CPU ---- */

static void set_segments(struct kvm_sregs *sregs)
{
	struct kvm_segment seg = sregs->ds;

	seg.selector = 0x23;
	seg.dpl = 3; /* user */
	seg.limit = 0xffffffff;
	seg.g = 1;
	sregs->ds = sregs->es = sregs->fs = sregs->gs = sregs->ss = seg;
	seg.selector = 0x2b;
	seg.type = 11; /* code */
	seg.l = 1;     /* 64 bits */
	sregs->cs = seg;
	sregs->tr.type = 11; /* a 64-bit task, as the mode demands */
}

static void reset_cpu(struct kvm_guest *k)
{
	struct kvm_sregs sregs;
	struct kvm_regs regs = {
		.rip = FLAT_CODE,
		.rflags = 2,
		.rsp = FLAT_STACK_TOP - 8, /* as after a call */
		.rdi = FLAT_STATION,
	};

	if (ioctl(k->vcpu, KVM_GET_SREGS, &sregs))
		die("cannot read the CPU: %s", strerror(errno));
	set_segments(&sregs);
	sregs.cr0 |= 0x80000021; /* paging, numeric error, protection */
	sregs.cr3 = FLAT_TABLES;
	sregs.cr4 |= 0x20;   /* physical address extension */
	sregs.efer |= 0x500; /* long mode: enabled, active */
	if (ioctl(k->vcpu, KVM_SET_SREGS, &sregs) ||
	    ioctl(k->vcpu, KVM_SET_REGS, &regs))
		die("cannot set the CPU: %s", strerror(errno));
}

static void *cpu_main(void *arg)
{
	struct kvm_guest *k = arg;

	for (;;) {
		if (ioctl(k->vcpu, KVM_RUN, 0) == 0 ||
		    (errno != EINTR && errno != EAGAIN))
			break;
		if (!__atomic_load_n(&k->run->immediate_exit, __ATOMIC_SEQ_CST))
			continue; /* a signal that is none of ours */
		sem_post(&k->stopped);
		while (sem_wait(&k->go))
			continue;
		if (__atomic_load_n(&k->end, __ATOMIC_SEQ_CST))
			return NULL;
	}
	/* This guest does no I/O and never halts. */
	die("the guest came out of KVM_RUN: exit reason %u, %s",
	    k->run->exit_reason, strerror(errno));
}

static void kvm_pause(struct guest *g)
{
	struct kvm_guest *k = g->priv;

	__atomic_store_n(&k->run->immediate_exit, 1, __ATOMIC_SEQ_CST);
	pthread_kill(k->thread, SIGUSR1);
	while (sem_wait(&k->stopped))
		continue;
}

static void kvm_resume(struct guest *g)
{
	struct kvm_guest *k = g->priv;

	__atomic_store_n(&k->run->immediate_exit, 0, __ATOMIC_SEQ_CST);
	sem_post(&k->go);
}

/* The least difference of many is the true one but for a step of the loop. */
static uint64_t clock_ahead(const struct station *st)
{
	uint64_t least = UINT64_MAX;

	while (!peek(&st->heartbeat))
		usleep(1000);
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t guest = peek(&st->heartbeat);
		uint64_t ahead = ticks() - guest;

		/* As signed numbers: the guest's may be ahead. */
		if (i == 0 || (int64_t)(ahead - least) < 0)
			least = ahead;
	}
	return least;
}

static void kvm_start(struct guest *g)
{
	struct kvm_guest *k = g->priv;

	g->station->ram = FLAT_RAM;
	k->end = false;
	k->run->immediate_exit = 0;
	reset_cpu(k);
	if (pthread_create(&k->thread, NULL, cpu_main, k))
		die("cannot start a thread");
	g->clock_ahead = clock_ahead(g->station);
}

static void kvm_stop(struct guest *g)
{
	struct kvm_guest *k = g->priv;

	kvm_pause(g);
	__atomic_store_n(&k->end, true, __ATOMIC_SEQ_CST);
	sem_post(&k->go);
	pthread_join(k->thread, NULL);
}

static void kvm_counters(struct guest *g, uint64_t *out)
{
	struct kvm_guest *k = g->priv;

	for (unsigned i = 0; i < COUNTERS; i++) {
		const char *name = guest_counter_name((enum guest_counter)i);

		out[i] = kvm_stats_get(&k->vm_stats, name) +
			 kvm_stats_get(&k->vcpu_stats, name);
	}
}

const struct guest_ops guest_kvm = {
	.name = "kvm",
	.create = kvm_create,
	.start = kvm_start,
	.stop = kvm_stop,
	.pause = kvm_pause,
	.resume = kvm_resume,
	.destroy = kvm_destroy,
	.counters = kvm_counters,
};

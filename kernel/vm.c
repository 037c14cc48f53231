// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest of the laboratory's programs: 32-bit flat code without paging, so
 * that each of its accesses is translated by KVM's TDP MMU only.
 *
 * How it works: slot 0 is a shared page table's worth of low memory with the
 * code and the sweep counters, slot 1 the RAM. Each vCPU has a thread that calls
 * KVM_RUN; a signal takes it out, and it waits in vcpu_thread() until told to go
 * on. The registers of a parked vCPU tell exactly which writes it has done.
 */
#define _GNU_SOURCE
#include "vm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOW_SIZE 65536
#define CONTROL 0x800 /* sweep counters of the vCPUs, one after the other */
#define CODE 0x1000   /* of vCPU 0; the next one's is CODE_STEP above */
#define CODE_STEP 0x100
#define RAM_BASE 0x400000u
#define WORK_LENGTH 2 /* bytes of the instruction that reads or increments */

void check(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(2);
}

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	check(fd >= 0, path);
	check(write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
	close(fd);
}

bool kernel_has(const char *path)
{
	return access(path, F_OK) == 0;
}

/* `name` NULL: the file is one number. */
uint64_t get_counter(const char *path, const char *name)
{
	char key[64];
	unsigned long long value = 0;
	FILE *f = fopen(path, "re");

	if (!f)
		return 0;
	if (!name) {
		if (fscanf(f, "%llu", &value) != 1)
			value = 0;
		fclose(f);
		return value;
	}
	while (fscanf(f, "%63s %llu", key, &value) == 2)
		if (!strcmp(key, name)) {
			fclose(f);
			return value;
		}
	fclose(f);
	return 0;
}

uint64_t vm_stat(int stats, const char *name)
{
	struct kvm_stats_header head;
	size_t step;
	uint64_t value = 0;
	char *all;

	check(pread(stats, &head, sizeof(head), 0) == sizeof(head), "stats");
	step = sizeof(struct kvm_stats_desc) + head.name_size;
	all = malloc(step * head.num_desc);
	check(all && pread(stats, all, step * head.num_desc,
			   head.desc_offset) == (ssize_t)(step * head.num_desc),
	      "stats");
	for (unsigned int i = 0; i < head.num_desc; i++) {
		const struct kvm_stats_desc *d = (void *)(all + i * step);

		if (strcmp(d->name, name) != 0)
			continue;
		check(pread(stats, &value, sizeof(value),
			    head.data_offset + d->offset) == sizeof(value),
		      name);
		free(all);
		return value;
	}
	errno = ENOENT;
	check(false, name);
	return 0;
}

uint64_t vm_faults(const struct vm *vm)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < vm->vcpus; i++)
		sum += vm_stat(vm->vcpu[i].stats, "pf_taken");
	return sum;
}

static void woken(int sig)
{
	(void)sig;
}

/* Waits while the VM is held; false when it is to end. */
static bool may_run(struct vm_vcpu *vcpu)
{
	struct vm *vm = vcpu->vm;
	bool end;

	pthread_mutex_lock(&vm->lock);
	while (vm->hold && !vm->end) {
		vcpu->parked = true;
		/* A kick that came before KVM_RUN has done its work here. */
		vcpu->run->immediate_exit = 0;
		pthread_cond_broadcast(&vm->changed);
		pthread_cond_wait(&vm->changed, &vm->lock);
	}
	vcpu->parked = false;
	end = vm->end;
	pthread_mutex_unlock(&vm->lock);
	return !end;
}

static void *vcpu_thread(void *arg)
{
	struct vm_vcpu *vcpu = arg;

	while (may_run(vcpu)) {
		int err = ioctl(vcpu->fd, KVM_RUN, 0);

		check(err == 0 || errno == EINTR || errno == EAGAIN, "KVM_RUN");
		if (err || vcpu->run->exit_reason == KVM_EXIT_INTR)
			continue;
		fprintf(stderr, "vm: exit %u, suberror %u\n",
			vcpu->run->exit_reason, vcpu->run->internal.suberror);
		exit(2);
	}
	return NULL;
}

void vm_park(struct vm *vm)
{
	pthread_mutex_lock(&vm->lock);
	vm->hold = true;
	for (unsigned int i = 0; i < vm->vcpus; i++) {
		/* For a thread that is just about to enter KVM_RUN. */
		if (!vm->vcpu[i].parked)
			vm->vcpu[i].run->immediate_exit = 1;
		pthread_kill(vm->vcpu[i].thread, SIGUSR1);
	}
	for (unsigned int i = 0; i < vm->vcpus; i++)
		while (!vm->vcpu[i].parked)
			pthread_cond_wait(&vm->changed, &vm->lock);
	pthread_mutex_unlock(&vm->lock);
}

void vm_resume(struct vm *vm)
{
	pthread_mutex_lock(&vm->lock);
	vm->hold = false;
	pthread_cond_broadcast(&vm->changed);
	pthread_mutex_unlock(&vm->lock);
}

uint32_t vm_sweeps(const struct vm *vm, unsigned int n)
{
	return vm->control[n];
}

void vm_wait_sweeps(const struct vm *vm, unsigned int more)
{
	uint32_t from[MAX_VCPUS];

	for (unsigned int i = 0; i < vm->vcpus; i++)
		from[i] = vm_sweeps(vm, i);
	for (unsigned int i = 0; i < vm->vcpus; i++)
		while (vm_sweeps(vm, i) - from[i] < more)
			usleep(500);
}

size_t vm_position(const struct vm *vm, unsigned int n)
{
	uint64_t code = CODE + CODE_STEP * n;
	struct kvm_regs regs;
	size_t page;

	check(!ioctl(vm->vcpu[n].fd, KVM_GET_REGS, &regs), "KVM_GET_REGS");
	if (regs.rip == code) /* before the sweep's first instruction */
		return 0;
	page = (regs.rsi - RAM_BASE) / PAGE;
	/* code + 5: the work on this page is still to be done */
	if (regs.rip == code + 5 + WORK_LENGTH)
		return page + 1; /* done, and esi not yet advanced */
	/* at the counter's increment all is done; after it, nothing */
	if (regs.rip >= code + 5 + WORK_LENGTH + 14 + 6)
		return 0;
	return page;
}

/* The code of vCPU `n`: for (;;) { for each page: work; sweeps++; } */
static void put_code(struct vm *vm, char *low, enum vm_job job, unsigned int n)
{
	uint32_t first = RAM_BASE + 4 * n, step = PAGE;
	uint32_t last = RAM_BASE + (uint32_t)vm->size, sweeps = CONTROL + 4 * n;
	unsigned char code[64] = {0xbe}; /* mov esi, first */

	memcpy(code + 1, &first, 4);
	if (job == VM_WRITE)
		memcpy(code + 5, "\xff\x06", 2); /* inc dword [esi] */
	else
		memcpy(code + 5, "\x8b\x06", 2); /* mov eax, [esi] */
	memcpy(code + 7, "\x81\xc6", 2);	 /* add esi, step */
	memcpy(code + 9, &step, 4);
	memcpy(code + 13, "\x81\xfe", 2); /* cmp esi, last */
	memcpy(code + 15, &last, 4);
	memcpy(code + 19, "\x72\xf0", 2); /* jb: back to the work */
	memcpy(code + 21, "\xff\x05", 2); /* inc dword [sweeps] */
	memcpy(code + 23, &sweeps, 4);
	memcpy(code + 27, "\xeb\xe3", 2); /* jmp: from the start */
	memcpy(low + CODE + CODE_STEP * n, code, sizeof(code));
}

static void make_vcpu(struct vm *vm, int kvm, unsigned int n)
{
	struct kvm_segment cs = {.limit = 0xffffffff,
				 .selector = 8,
				 .present = 1,
				 .type = 11,
				 .db = 1,
				 .s = 1,
				 .g = 1};
	struct kvm_segment ds = cs;
	struct kvm_regs regs = {.rip = CODE + CODE_STEP * n, .rflags = 2};
	struct vm_vcpu *vcpu = &vm->vcpu[n];
	int run_size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_sregs sregs;

	vcpu->vm = vm;
	vcpu->fd = ioctl(vm->fd, KVM_CREATE_VCPU, n);
	check(vcpu->fd >= 0 && run_size > 0, "KVM_CREATE_VCPU");
	vcpu->run = mmap(NULL, (size_t)run_size, PROT_READ | PROT_WRITE,
			 MAP_SHARED, vcpu->fd, 0);
	check(vcpu->run != MAP_FAILED, "mmap of kvm_run");
	check(!ioctl(vcpu->fd, KVM_GET_SREGS, &sregs), "KVM_GET_SREGS");
	ds.type = 3;
	ds.selector = 16;
	sregs.cs = cs;
	sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = ds;
	sregs.cr0 |= 1; /* protected mode */
	check(!ioctl(vcpu->fd, KVM_SET_SREGS, &sregs), "KVM_SET_SREGS");
	check(!ioctl(vcpu->fd, KVM_SET_REGS, &regs), "KVM_SET_REGS");
	vcpu->stats = ioctl(vcpu->fd, KVM_GET_STATS_FD, 0);
	check(vcpu->stats >= 0, "KVM_GET_STATS_FD of a vCPU");
	check(!pthread_create(&vcpu->thread, NULL, vcpu_thread, vcpu),
	      "pthread_create");
}

/* Aligned to huge pages, so that VM_HUGE gets them throughout. */
static void make_ram(struct vm *vm, enum vm_pages pages)
{
	char *at = mmap(NULL, vm->size + HUGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(at != MAP_FAILED, "mmap of the RAM");
	at += -(uintptr_t)at % HUGE;
	check(!madvise(at, vm->size,
		       pages == VM_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE),
	      "madvise");
	memset(at, 0, vm->size);
	for (size_t i = 0; i < vm->size; i += PAGE)
		at[i + PAGE - 1] = 1; /* populated by more than the zero page */
	vm->ram = at;
}

void vm_make(struct vm *vm, size_t size, enum vm_pages pages, enum vm_job job,
	     unsigned int vcpus)
{
	struct sigaction wake = {.sa_handler = woken};
	struct kvm_userspace_memory_region slot = {.memory_size = LOW_SIZE};
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	char *low;

	*vm = (struct vm){.size = size, .vcpus = vcpus, .hold = true};
	pthread_mutex_init(&vm->lock, NULL);
	pthread_cond_init(&vm->changed, NULL);
	sigaction(SIGUSR1, &wake, NULL);
	check(kvm >= 0, "/dev/kvm");
	vm->fd = ioctl(kvm, KVM_CREATE_VM, 0);
	check(vm->fd >= 0, "KVM_CREATE_VM");
	check(!ioctl(vm->fd, KVM_SET_TSS_ADDR, 0xfffbd000), "KVM_SET_TSS_ADDR");
	make_ram(vm, pages);
	low = mmap(NULL, LOW_SIZE, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(low != MAP_FAILED, "mmap");
	vm->control = (void *)(low + CONTROL);
	for (unsigned int i = 0; i < vcpus; i++)
		put_code(vm, low, job, i);
	slot.userspace_addr = (uintptr_t)low;
	check(!ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &slot), "slot 0");
	slot = (struct kvm_userspace_memory_region){
		.slot = 1,
		.guest_phys_addr = RAM_BASE,
		.memory_size = size,
		.userspace_addr = (uintptr_t)vm->ram,
	};
	check(!ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &slot), "slot 1");
	vm->stats = ioctl(vm->fd, KVM_GET_STATS_FD, 0);
	check(vm->stats >= 0, "KVM_GET_STATS_FD");
	for (unsigned int i = 0; i < vcpus; i++)
		make_vcpu(vm, kvm, i);
	close(kvm);
	vm_park(vm);
}

void vm_destroy(struct vm *vm)
{
	vm_park(vm);
	pthread_mutex_lock(&vm->lock);
	vm->end = true;
	pthread_cond_broadcast(&vm->changed);
	pthread_mutex_unlock(&vm->lock);
	for (unsigned int i = 0; i < vm->vcpus; i++) {
		pthread_join(vm->vcpu[i].thread, NULL);
		close(vm->vcpu[i].stats);
		close(vm->vcpu[i].fd);
	}
	close(vm->stats);
	close(vm->fd);
	munmap(vm->ram, vm->size);
}

int uffd_open(const struct vm *vm)
{
	struct uffdio_api api = {.api = UFFD_API,
				 .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
	struct uffdio_register reg = {
		.range = {(uintptr_t)vm->ram, vm->size},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	check(uffd >= 0, "userfaultfd");
	check(!ioctl(uffd, UFFDIO_API, &api), "UFFDIO_API");
	check(!ioctl(uffd, UFFDIO_REGISTER, &reg), "UFFDIO_REGISTER");
	return uffd;
}

static void write_protect(int uffd, const void *at, size_t length, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = {(uintptr_t)at, length},
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	while (ioctl(uffd, UFFDIO_WRITEPROTECT, &wp))
		check(errno == EAGAIN, "UFFDIO_WRITEPROTECT");
}

void uffd_protect(int uffd, const void *at, size_t length)
{
	write_protect(uffd, at, length, true);
}

void uffd_open_up(int uffd, const void *at, size_t length)
{
	write_protect(uffd, at, length, false);
}

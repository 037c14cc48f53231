/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A small KVM guest without a kernel, and what the laboratory's programs read
 * and write of the kernel around it.
 */
#ifndef VM_H
#define VM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE ((size_t)4096)
#define HUGE ((size_t)2 << 20)
#define MAX_VCPUS 4

enum vm_job {
	VM_READ,  /* reads a word of each page, without end */
	VM_WRITE, /* increments a word of each page, without end */
};

enum vm_pages { VM_SMALL, VM_HUGE };

struct vm;

/* A vCPU and the thread that runs it. */
struct vm_vcpu {
	struct vm *vm;
	struct kvm_run *run;
	pthread_t thread;
	int fd;
	int stats;   /* of the vCPU: pf_taken */
	bool parked; /* under vm->lock: out of KVM_RUN, waits for vm_resume() */
};

struct vm {
	char *ram;
	size_t size;
	volatile uint32_t *control; /* see vm_sweeps() */
	int fd;
	int stats; /* of the VM: pages_4k, pages_2m, remote_tlb_flush... */
	unsigned int vcpus;
	struct vm_vcpu vcpu[MAX_VCPUS];
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool hold, end;
};

/* Ends the program, with errno's text, if `ok` is false. */
void check(bool ok, const char *what);

double now(void);

/*
 * Private anonymous RAM of `size` bytes, filled, and a guest whose vCPU number N
 * works on the word number N of each page.  The vCPUs are parked.
 */
void vm_make(struct vm *vm, size_t size, enum vm_pages pages, enum vm_job job,
	     unsigned int vcpus);
void vm_destroy(struct vm *vm);

/* All vCPUs out of KVM_RUN when it returns. */
void vm_park(struct vm *vm);
void vm_resume(struct vm *vm);

/* How often vCPU number `n` went through all RAM. */
uint32_t vm_sweeps(const struct vm *vm, unsigned int n);
void vm_wait_sweeps(const struct vm *vm, unsigned int more);

/*
 * How many pages of the current sweep a parked VM_WRITE vCPU has done: those
 * have its word one higher than vm_sweeps(), the others equal to it.
 */
size_t vm_position(const struct vm *vm, unsigned int n);

/* A statistic of KVM by its name, of a VM or vCPU. */
uint64_t vm_stat(int stats, const char *name);
uint64_t vm_faults(const struct vm *vm); /* pf_taken of all vCPUs */

/* userfaultfd */
int uffd_open(const struct vm *vm);
void uffd_protect(int uffd, const void *at, size_t length);
void uffd_open_up(int uffd, const void *at, size_t length);

/* Files of the kernel that hold a number or a word. */
void put_file(const char *path, const char *text);
uint64_t get_counter(const char *path, const char *name);
bool kernel_has(const char *path);

#define PERM_UPGRADE "/sys/module/kvm/parameters/perm_upgrade"
#define NAIVE_UPGRADE "/sys/module/mprotect/parameters/naive_upgrade"

#endif

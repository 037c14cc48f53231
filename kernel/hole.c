// SPDX-License-Identifier: GPL-2.0-only
/*
 * hole: shows what becomes of pages that are open already when the range they
 * are in is unprotected, on stock, patched, and naively patched kernels.
 *
 * usage: hole
 *
 * All of the RAM is mapped writable, by the host and by the guest. Then it is
 * unprotected, although nothing is protected. A guest that still writes without
 * a fault while the host faults at each of its own writes has more access than
 * the page table of the process gives: the page was made read-only, and KVM, told
 * that nothing was taken, has kept its writable SPTE.
 */
#define _GNU_SOURCE
#include "vm.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define RAM ((size_t)8 << 20)

static long host_faults(void)
{
	struct rusage use;

	check(!getrusage(RUSAGE_THREAD, &use), "getrusage");
	return use.ru_minflt;
}

/* How many pages the guest may write to and the host may not. */
static unsigned long excess(const char *kernel, enum vm_pages pages)
{
	uint64_t guest;
	struct vm vm;
	long host;
	int uffd;

	vm_make(&vm, RAM, pages, VM_WRITE, 1);
	uffd = uffd_open(&vm);
	vm_resume(&vm);
	vm_wait_sweeps(&vm, 2);
	vm_park(&vm);
	uffd_open_up(uffd, vm.ram, vm.size);
	guest = vm_faults(&vm);
	vm_resume(&vm);
	vm_wait_sweeps(&vm, 2);
	vm_park(&vm);
	guest = vm_faults(&vm) - guest;
	host = host_faults();
	for (size_t i = 0; i < vm.size; i += PAGE)
		((volatile char *)vm.ram)[i + PAGE - 1] = 1;
	host = host_faults() - host;
	printf("| %s | %s | %zu | %llu | %ld |\n", kernel,
	       pages == VM_HUGE ? "THP" : "4K", vm.size / PAGE,
	       (unsigned long long)guest, host);
	close(uffd);
	vm_destroy(&vm);
	return guest == 0 ? (unsigned long)host : 0;
}

static bool closed(const char *kernel, const char *keep, const char *naive)
{
	unsigned long pages = 0;

	put_file(PERM_UPGRADE, keep);
	put_file(NAIVE_UPGRADE, naive);
	for (int kind = VM_SMALL; kind <= VM_HUGE; kind++)
		pages += excess(kernel, (enum vm_pages)kind);
	return pages == 0;
}

int main(void)
{
	bool ok = true;

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("| kernel | host pages | pages | guest faults | host faults |");
	puts("|---|---|---|---|---|");
	ok &= closed("stock", "0", "0");
	ok &= closed("patched", "1", "0");
	/* It is there to show the hole: without one it shows nothing. */
	ok &= !closed("naive", "1", "1");
	put_file(NAIVE_UPGRADE, "0");
	return ok ? 0 : 1;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * refault: counts what an unprotect costs a guest that only reads, for stock and
 * patched behaviour, small and huge pages, and several lengths of a step.
 *
 * usage: refault [MIB [STEP...]]
 *
 * All RAM is write-protected, the guest maps it read-only, then it is unprotected
 * in steps of STEP pages, each copied before as a snapshot does. Exit code 1 when
 * a kept mapping faulted or flushed.
 */
#include "vm.h"

#include <linux/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct counts {
	uint64_t faults, flushes, small, huge, sweeps;
};

static struct counts take(const struct vm *vm)
{
	return (struct counts){
		.faults = vm_faults(vm),
		.flushes = vm_stat(vm->stats, "remote_tlb_flush_requests"),
		.small = vm_stat(vm->stats, "pages_4k"),
		.huge = vm_stat(vm->stats, "pages_2m"),
		.sweeps = vm_sweeps(vm, 0),
	};
}

static void unprotect_all(const struct vm *vm, int uffd, size_t step)
{
	static char copy[2 << 20];

	for (size_t at = 0; at < vm->size; at += step) {
		size_t length = step < vm->size - at ? step : vm->size - at;

		for (size_t x = 0; x < length; x += sizeof(copy))
			memcpy(copy, vm->ram + at + x,
			       length - x < sizeof(copy) ? length - x
							 : sizeof(copy));
		uffd_open_up(uffd, vm->ram + at, length);
	}
}

/* One line of the table; false if a kept mapping was not kept. */
static bool measure(const char *name, bool keep, enum vm_pages pages,
		    size_t mib, size_t step)
{
	struct counts before, after;
	struct vm vm;
	int uffd;

	vm_make(&vm, mib << 20, pages, VM_READ, 1);
	uffd = uffd_open(&vm);
	vm_resume(&vm);
	vm_wait_sweeps(&vm, 2);
	uffd_protect(uffd, vm.ram, vm.size);
	vm_wait_sweeps(&vm, 2);
	before = take(&vm);
	unprotect_all(&vm, uffd, step * PAGE);
	after = take(&vm);
	/* What was zapped is faulted in at the latest now. */
	vm_wait_sweeps(&vm, 2);
	after.faults = vm_faults(&vm);
	after.flushes = vm_stat(vm.stats, "remote_tlb_flush_requests");
	after.huge = vm_stat(vm.stats, "pages_2m");
	printf("| %s | %s | %zu | %zu | %llu | %llu | %llu of %llu | %llu |\n",
	       name, pages == VM_HUGE ? "THP" : "4K", step,
	       vm.size / PAGE / step,
	       (unsigned long long)(after.faults - before.faults),
	       (unsigned long long)(after.flushes - before.flushes),
	       (unsigned long long)after.huge, (unsigned long long)before.huge,
	       (unsigned long long)(after.sweeps - before.sweeps));
	close(uffd);
	vm_destroy(&vm);
	return !keep || (after.faults == before.faults &&
			 after.flushes == before.flushes);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 0) : 32;
	static const size_t usual[] = {1, 16, 512};
	size_t steps = argc > 2 ? (size_t)argc - 2 : 3;
	bool patched = kernel_has(PERM_UPGRADE), ok = true;

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("| kernel | host pages | G | ioctls | pf | flush requests | "
	     "2M SPTEs after | guest sweeps |");
	puts("|---|---|---|---|---|---|---|---|");
	for (int keep = 0; keep <= (patched ? 1 : 0); keep++) {
		if (patched)
			put_file(PERM_UPGRADE, keep ? "1" : "0");
		for (int pages = VM_SMALL; pages <= VM_HUGE; pages++)
			for (size_t i = 0; i < steps; i++) {
				size_t step =
					argc > 2 ? strtoul(argv[i + 2], NULL, 0)
						 : usual[i];

				ok &= measure(keep ? "patched" : "stock", keep,
					      (enum vm_pages)pages, mib, step);
			}
	}
	return ok ? 0 : 1;
}

/* SPDX-License-Identifier: MIT */
/* What /proc says of another process's RAM, without touching it. */
#ifndef SNAPLAT_FOOTPRINT_H
#define SNAPLAT_FOOTPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t start, length;
};

struct footprint {
	uint64_t present, swapped; /* pages of 4 KiB */
	uint64_t soft_dirty; /* ... written to since the bits were cleared */
	uint64_t huge_bytes; /* in huge pages */
	uint64_t referenced_bytes; /* accessed since the bits were cleared */
};

/** false: the process has gone, or may not be looked at. */
bool footprint_read(int pid, const struct range *ranges, size_t n,
		    struct footprint *out);

/** Whether this kernel keeps soft-dirty bits. */
bool footprint_has_soft_dirty(void);

/** Clear the soft-dirty ("4") or the accessed ("1") bits of a process. */
bool footprint_clear(int pid, const char *what);

/** Whether it has a virtual machine of KVM. */
bool footprint_has_kvm(int pid);

unsigned footprint_threads(int pid);
void footprint_name(int pid, char *name, size_t room);

#endif

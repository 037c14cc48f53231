/* SPDX-License-Identifier: MIT */
/* What /proc says of this process: descriptors, threads, mappings, memory. */
#ifndef TEST_PROC_H
#define TEST_PROC_H

#include <stddef.h>
#include <stdint.h>

/** What a snapshot must leave as it found it. */
struct proc_census {
	unsigned fds;
	unsigned userfaultfds;
	unsigned threads;
};

void proc_census(struct proc_census *c);

/** Sums over the mappings that overlap a range. */
struct proc_range {
	uint64_t anon_huge_bytes; /* AnonHugePages */
	unsigned mappings;
	unsigned uffd_mappings; /* those with VmFlags uw, um or ui */
};

void proc_range(const void *addr, size_t len, struct proc_range *out);

/** A field of /proc/self/status in bytes, such as "VmHWM"; 0: no such. */
uint64_t proc_status_bytes(const char *field);

/** Let VmHWM start anew from here. */
void proc_reset_peak(void);

#endif

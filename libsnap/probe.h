/* SPDX-License-Identifier: MIT */
/* What this kernel can do: one tiny attempt at each, no version numbers. */
#ifndef SNAP_PROBE_H
#define SNAP_PROBE_H

#include <stdbool.h>

struct probe {
	bool uffd_device;  /* /dev/userfaultfd can be opened */
	bool uffd_syscall; /* userfaultfd(2) for kernel faults is allowed */
	bool wp_anon, wp_shmem, wp_hugetlb; /* can be write-protected */
	bool wp_unpopulated;		    /* ... where nothing is */
	bool pagemap_scan;
	bool io_uring;
	bool kvm;	  /* /dev/kvm can be opened */
	int ptrace_scope; /* of Yama; -1: there is none */
	char kernel[65];  /* release */
};

/** Fill @p.  Cannot fail: what does not work is false. */
void probe_run(struct probe *p);

#endif

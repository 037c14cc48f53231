/* SPDX-License-Identifier: MIT */
/* Binary statistics of KVM (KVM_GET_STATS_FD, Linux 5.14), looked up by name. */
#ifndef SNAPLAT_KVM_STATS_H
#define SNAPLAT_KVM_STATS_H

#include <stdint.h>

struct kvm_stats {
	int fd; /* -1: this kernel has none */
	uint32_t name_size, count, data;
	char *descriptors;
};

/** @fd is a VM's or a virtual CPU's. */
void kvm_stats_open(struct kvm_stats *s, int fd);
void kvm_stats_close(struct kvm_stats *s);
/** 0 when there is no such counter. */
uint64_t kvm_stats_get(const struct kvm_stats *s, const char *name);

#endif

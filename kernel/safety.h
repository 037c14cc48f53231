/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a round of safety.c shares with the disturbances of disturb.c.
 */
#ifndef SAFETY_H
#define SAFETY_H

#include "vm.h"

struct count {
	unsigned long rounds, faults, unprotects, bridged, forks;
	unsigned long verified, inexact, lost;
};

struct lab;

/* A kind of RAM, and what happens to it meanwhile. */
struct scenario {
	const char *name;
	size_t size;
	enum vm_pages pages;
	/* KSM drops the protection of pages it merges, whatever the kernel. */
	bool exact;
	void (*begin)(struct lab *lab);
	void (*disturb)(struct lab *lab); /* a few times a round */
	void (*between)(struct lab *lab); /* after a round; all is open */
	void (*finish)(struct lab *lab);
};

struct lab {
	const struct scenario *what;
	struct vm vm;
	size_t pages;
	int uffd;
	volatile bool end;
	pthread_mutex_t lock; /* saved, left, count */
	bool *saved;
	size_t left;
	struct count count;
	unsigned int shown;
	/* The instant of the round: see vm_position(). */
	uint32_t sweeps[MAX_VCPUS];
	size_t position[MAX_VCPUS];
	char *hog;
	size_t hog_size;
};

/* Ends with one without a name. */
extern const struct scenario scenarios[];

/* What the kernel did to memory so far. */
struct happened {
	unsigned long long migrated, swapped, merged, split;
};

struct happened happened(void);

#endif

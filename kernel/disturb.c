// SPDX-License-Identifier: GPL-2.0-only
/*
 * What safety.c does to the guest's RAM while it is being saved.
 */
#define _GNU_SOURCE
#include "safety.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define KSM "/sys/kernel/mm/ksm/"

struct happened happened(void)
{
	static const char vmstat[] = "/proc/vmstat";

	return (struct happened){
		.migrated = get_counter(vmstat, "pgmigrate_success"),
		.swapped = get_counter(vmstat, "pswpout"),
		.merged = get_counter(KSM "pages_sharing", NULL),
		.split = get_counter(vmstat, "thp_split_pmd"),
	};
}

static void nothing(struct lab *lab)
{
	(void)lab;
}

/* `length` bytes somewhere in the RAM. */
static char *somewhere(struct lab *lab, size_t length)
{
	size_t pages = lab->pages - length / PAGE + 1;

	return lab->vm.ram + (size_t)rand() % pages * PAGE;
}

/*
 * A child that shares all RAM for a moment and writes to its own copy, so that
 * the parent's writes have to copy as well, or may reuse, as it comes.
 */
static void fork_child(struct lab *lab)
{
	unsigned int stay = (unsigned int)rand() % 4000;
	char *at = somewhere(lab, 16 * PAGE);
	pid_t child = fork();

	check(child >= 0, "fork");
	if (child > 0) {
		lab->count.forks++;
		return;
	}
	for (size_t i = 0; i < 16 * PAGE; i += PAGE)
		((volatile char *)at)[i + 100] = 1;
	usleep(stay);
	_exit(0);
}

static void page_out(struct lab *lab)
{
	/* Refused for what is busy; that is no matter. */
	madvise(somewhere(lab, 64 * PAGE), 64 * PAGE, MADV_PAGEOUT);
}

/* Memory with holes, for compaction to have something to move. */
static void riddle(struct lab *lab)
{
	lab->hog_size = 48 << 20;
	lab->hog = mmap(NULL, lab->hog_size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	check(lab->hog != MAP_FAILED, "mmap");
	for (size_t i = 0; i < lab->hog_size; i += 2 * PAGE)
		madvise(lab->hog + i, PAGE, MADV_DONTNEED);
}

static void release(struct lab *lab)
{
	munmap(lab->hog, lab->hog_size);
}

static void compact(struct lab *lab)
{
	size_t i = (size_t)rand() % (lab->hog_size / PAGE) * PAGE;

	/* It takes as long as some rounds. */
	if (rand() % 8)
		return;
	put_file("/proc/sys/vm/compact_memory", "1");
	/* New holes elsewhere for the next time. */
	madvise(lab->hog + i, PAGE, MADV_DONTNEED);
	lab->hog[lab->hog_size - PAGE - i] = 1;
}

/* More than is free is asked for, so that reclaim has to find it. */
static void press(struct lab *lab)
{
	size_t free_mib = get_counter("/proc/meminfo", "MemFree:") >> 10;
	size_t size = (free_mib + 24) << 20;
	char *hog = mmap(NULL, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(hog != MAP_FAILED, "mmap");
	/* Not in each call: it takes as long as many rounds. */
	if (rand() % 64 == 0)
		for (size_t i = 0; i < size; i += PAGE)
			hog[i] = 1;
	munmap(hog, size);
	page_out(lab);
}

static void merge_begin(struct lab *lab)
{
	check(!madvise(lab->vm.ram, lab->vm.size, MADV_MERGEABLE),
	      "MADV_MERGEABLE");
	put_file(KSM "pages_to_scan", "2000");
	put_file(KSM "sleep_millisecs", "1");
	put_file(KSM "run", "1");
}

/* ksmd merges what stands still for two scans. */
static void merge_between(struct lab *lab)
{
	if (lab->count.rounds % 4)
		return;
	vm_park(&lab->vm);
	usleep(60000);
	vm_resume(&lab->vm);
}

static void merge_finish(struct lab *lab)
{
	(void)lab;
	put_file(KSM "run", "2");
}

static void collapse(struct lab *lab)
{
	madvise(lab->vm.ram, lab->vm.size, MADV_COLLAPSE);
}

static void everything(struct lab *lab)
{
	switch (rand() % 4) {
	case 0:
		fork_child(lab);
		break;
	case 1:
		page_out(lab);
		break;
	case 2:
		compact(lab);
		break;
	}
}

const struct scenario scenarios[] = {
	{"nothing else, 4K", 4 << 20, VM_SMALL, true, NULL, nothing, NULL,
	 NULL},
	{"nothing else, THP", 8 << 20, VM_HUGE, true, NULL, nothing, collapse,
	 NULL},
	{"fork, 4K", 4 << 20, VM_SMALL, true, NULL, fork_child, NULL, NULL},
	{"fork, THP", 8 << 20, VM_HUGE, true, NULL, fork_child, collapse, NULL},
	{"reclaim and swap", 4 << 20, VM_SMALL, true, NULL, press, NULL, NULL},
	{"compaction", 4 << 20, VM_SMALL, true, riddle, compact, NULL, release},
	{"KSM", 4 << 20, VM_SMALL, false, merge_begin, nothing, merge_between,
	 merge_finish},
	{"all but KSM, THP", 8 << 20, VM_HUGE, true, riddle, everything,
	 collapse, release},
	{.name = NULL},
};

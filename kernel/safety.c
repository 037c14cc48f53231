// SPDX-License-Identifier: GPL-2.0-only
/*
 * safety: looks for a lost guest write, or a page saved too late, while a guest
 * that writes to all its RAM is snapshotted round after round, and the kernel is
 * made to move, merge, share, split and swap that RAM at the same time.
 *
 * usage: safety [SECONDS [KERNEL...]]    KERNEL: patched, stock, naive
 *
 * How it works: vCPU number N increments word number N of each page, in order.
 * From a parked vCPU's registers and sweep counter follows what each word must
 * be, so that after any number of rounds one lost write shows for ever. A round
 * parks the guest, notes that, protects all RAM and lets it go on; the fault
 * thread and the sweep then save each page once (a copy that must hold what was
 * noted) and unprotect it, with random neighbours that are saved already: those
 * are open, and their unprotection must not hurt. The lock makes "saved, then
 * unprotected" one step.
 */
#define _GNU_SOURCE
#include "safety.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void note_instant(struct lab *lab)
{
	for (unsigned int n = 0; n < lab->vm.vcpus; n++) {
		lab->sweeps[n] = vm_sweeps(&lab->vm, n);
		lab->position[n] = vm_position(&lab->vm, n);
	}
}

/* Whether `at` holds page number `page` as it was at the noted instant. */
static bool as_noted(struct lab *lab, const char *at, size_t page)
{
	const volatile uint32_t *word = (const void *)at;
	bool good = at[PAGE - 1] == 1;

	for (unsigned int n = 0; n < lab->vm.vcpus; n++) {
		uint32_t want = lab->sweeps[n] + (page < lab->position[n]);

		if (word[n] == want)
			continue;
		if (lab->shown++ < 5)
			fprintf(stderr,
				"safety: page %zu, vCPU %u: %u, not %u\n", page,
				n, word[n], want);
		good = false;
	}
	return good;
}

/* The guest is parked: all of its writes are where the host sees them. */
static void verify_live(struct lab *lab)
{
	note_instant(lab);
	for (size_t page = 0; page < lab->pages; page++)
		if (!as_noted(lab, lab->vm.ram + page * PAGE, page))
			lab->count.lost++;
	lab->count.verified += lab->pages * lab->vm.vcpus;
}

/* Under the lock: copies what is not saved yet, then unprotects. */
static void save_and_open(struct lab *lab, size_t first, size_t pages)
{
	static char copy[PAGE];
	size_t end = first + pages;

	for (size_t page = first; page < end; page++) {
		if (lab->saved[page])
			continue;
		memcpy(copy, lab->vm.ram + page * PAGE, PAGE);
		if (lab->what->exact && !as_noted(lab, copy, page))
			lab->count.inexact++;
		lab->saved[page] = true;
		lab->left--;
	}
	/* Over neighbours that are open already, now and then far. */
	if (rand() % 2) {
		size_t reach = (size_t)rand() % (rand() % 8 ? 32 : 1024);

		while (first > 0 && lab->saved[first - 1] && reach--)
			first--;
		reach = (size_t)rand() % 64;
		while (end < lab->pages && lab->saved[end] && reach--)
			end++;
	}
	uffd_open_up(lab->uffd, lab->vm.ram + first * PAGE,
		     (end - first) * PAGE);
	lab->count.unprotects++;
	lab->count.bridged += end - first - pages;
}

static void *fault_thread(void *arg)
{
	struct lab *lab = arg;
	struct uffd_msg msg[16];

	while (!lab->end) {
		struct pollfd ready = {.fd = lab->uffd, .events = POLLIN};
		ssize_t got;

		if (poll(&ready, 1, 20) <= 0)
			continue;
		got = read(lab->uffd, msg, sizeof(msg));
		for (ssize_t i = 0; i < got / (ssize_t)sizeof(*msg); i++) {
			uint64_t at = msg[i].arg.pagefault.address -
				      (uintptr_t)lab->vm.ram;

			pthread_mutex_lock(&lab->lock);
			save_and_open(lab, at / PAGE, 1);
			lab->count.faults++;
			pthread_mutex_unlock(&lab->lock);
		}
	}
	return NULL;
}

/* Saves the rest in chunks of a random length, in random order. */
static void sweep(struct lab *lab)
{
	static const size_t lengths[] = {1, 1, 16, 64, 512};
	size_t length = lengths[rand() % 5];
	size_t chunks = lab->pages / length;
	size_t from = (size_t)rand() % chunks, i = 0;
	size_t pause = chunks / 4 + 1;

	for (; i < chunks; i++) {
		size_t chunk =
			(from + i * 7) % chunks; /* 7: no divisor of it */

		pthread_mutex_lock(&lab->lock);
		if (lab->left)
			save_and_open(lab, chunk * length, length);
		pthread_mutex_unlock(&lab->lock);
		if (i % pause == 0)
			lab->what->disturb(lab);
	}
}

static void round_of(struct lab *lab)
{
	vm_park(&lab->vm);
	if (lab->count.rounds % 16 == 0)
		verify_live(lab);
	else
		note_instant(lab);
	memset(lab->saved, 0, lab->pages);
	lab->left = lab->pages;
	uffd_protect(lab->uffd, lab->vm.ram, lab->vm.size);
	vm_resume(&lab->vm);
	sweep(lab);
	check(lab->left == 0, "a page was not saved");
	lab->count.rounds++;
	/* Mostly the next round comes at once, while the guest still faults. */
	if (lab->what->between)
		lab->what->between(lab);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static void report(struct lab *lab, const char *kernel,
		   const struct happened *before)
{
	struct happened after = happened();
	const struct count *c = &lab->count;

	printf("| %s | %s | %lu | %lu | %lu | %lu | %llu | %llu | %lu | %llu | "
	       "%llu | %llu | %llu | %lu | %lu | %lu |\n",
	       kernel, lab->what->name, c->rounds, c->faults, c->unprotects,
	       c->bridged, (unsigned long long)vm_faults(&lab->vm),
	       (unsigned long long)vm_stat(lab->vm.stats,
					   "remote_tlb_flush_requests"),
	       c->forks, after.migrated - before->migrated,
	       after.swapped - before->swapped, after.merged,
	       after.split - before->split, c->verified, c->inexact, c->lost);
}

static bool run(const struct scenario *what, const char *kernel, double seconds)
{
	static struct lab lab;
	struct happened before = happened();
	double end = now() + seconds;
	pthread_t thread;

	lab = (struct lab){.what = what};
	pthread_mutex_init(&lab.lock, NULL);
	vm_make(&lab.vm, what->size, what->pages, VM_WRITE, 2);
	lab.pages = what->size / PAGE;
	lab.saved = calloc(lab.pages, 1);
	lab.uffd = uffd_open(&lab.vm);
	check(lab.saved != NULL, "calloc");
	if (what->begin)
		what->begin(&lab);
	check(!pthread_create(&thread, NULL, fault_thread, &lab), "thread");
	do
		round_of(&lab);
	while (now() < end);
	vm_park(&lab.vm);
	verify_live(&lab);
	report(&lab, kernel, &before);
	if (what->finish)
		what->finish(&lab);
	lab.end = true;
	pthread_join(thread, NULL);
	while (wait(NULL) > 0 || errno == EINTR)
		;
	close(lab.uffd);
	vm_destroy(&lab.vm);
	free(lab.saved);
	return lab.count.lost == 0 && lab.count.inexact == 0;
}

static void choose(const char *kernel)
{
	bool naive = !strcmp(kernel, "naive");

	if (kernel_has(NAIVE_UPGRADE))
		put_file(NAIVE_UPGRADE, naive ? "1" : "0");
	if (kernel_has(PERM_UPGRADE))
		put_file(PERM_UPGRADE, strcmp(kernel, "stock") ? "1" : "0");
}

int main(int argc, char **argv)
{
	static char *both[] = {"stock", "patched"};
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 20;
	char **kernels = argc > 2 ? argv + 2 : both;
	int n = argc > 2 ? argc - 2 : 2;
	bool ok = true;

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("| kernel | under | rounds | uffd faults | unprotects | bridged | "
	     "pf_taken | flush requests | forks | migrated | swapped out | "
	     "KSM pages | huge pages split | words verified | saved wrongly | "
	     "writes lost |");
	puts("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---"
	     "|");
	for (const struct scenario *what = scenarios; what->name; what++)
		for (int i = 0; i < n; i++) {
			choose(kernels[i]);
			ok &= run(what, kernels[i], seconds);
		}
	return ok ? 0 : 1;
}

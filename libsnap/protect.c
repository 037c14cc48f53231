// SPDX-License-Identifier: MIT
/* Arming and releasing guest RAM. */
#include "protect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "arm.h"
#include "attach.h"
#include "backing.h"
#include "prearm.h"
#include "sys.h"
#include "uffd.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Events that tell of discards, unmaps and moves in the window. */
#define EVENTS                                                                 \
	(UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP |                \
	 UFFD_FEATURE_EVENT_REMAP)

static bool has(const struct guest *g, uint64_t feature)
{
	return (g->features & feature) != 0;
}

static int open_uffd(struct guest *g)
{
	uint64_t offered = 0;
	int err = uffd_features(&offered);

	if (g->uffd < 0)
		g->uffd = uffd_open();
	if (g->uffd < 0)
		return g->uffd;
	if (err)
		return error_sys(err, SNAP_FAILURE_INTERNAL, "UFFDIO_API");
	if (!(offered & UFFD_FEATURE_PAGEFAULT_FLAG_WP))
		return error_set(-EOPNOTSUPP, SNAP_FAILURE_REFUSED,
				 "this kernel's userfaultfd cannot "
				 "write-protect (Linux 5.7 on x86-64)");
	g->features = offered & (UFFD_FEATURE_PAGEFAULT_FLAG_WP |
				 UFFD_FEATURE_WP_HUGETLBFS_SHMEM |
				 UFFD_FEATURE_WP_UNPOPULATED | EVENTS);
	err = uffd_enable(g->uffd, g->features);
	if (err)
		return error_sys(err, SNAP_FAILURE_INTERNAL, "UFFDIO_API");
	g->fdinfo = uffd_open_fdinfo(g->uffd);
	if (g->fdinfo < 0)
		return error_sys(g->fdinfo, SNAP_FAILURE_INTERNAL,
				 "/proc/self/fdinfo");
	return 0;
}

/* Of another process: has it make one, while its threads stand. */
static int attach(struct guest *g)
{
	const struct attach_options o = {.pid = g->pid};
	struct attach_result got;
	int err = attach_open(&g->attach, &o);

	if (err)
		return err;
	err = attach_take_uffd(g->attach, &got);
	if (err)
		return err;
	g->uffd = got.uffd;
	g->pidfd = got.pidfd;
	g->mem_fd = got.mem_fd;
	g->attach_ns = got.stopped_us * 1000;
	return 0;
}

static int register_region(struct guest *g, struct region *r,
			   struct complaints *c)
{
	int err;

	if (r->kind == REGION_COPIED)
		return 0;
	if (r->kind != REGION_ANON && !has(g, UFFD_FEATURE_WP_HUGETLBFS_SHMEM))
		return complain(c, -EOPNOTSUPP, r,
				"is shared or hugetlb memory, which this "
				"kernel cannot write-protect (Linux 5.19)");
	err = uffd_register(g->uffd, r->start, r->length);
	if (!err) {
		r->registered = true;
		return 0;
	}
	if (err == -EBUSY)
		return complain(c, err, r,
				"is registered with another userfaultfd");
	return complain(c, err, r, "cannot be registered with userfaultfd: %s",
			strerror(-err));
}

/*
 * Before Linux 6.4 a hole of anonymous memory takes no write-protection and
 * its first write would go unseen (Documentation/admin-guide/mm/
 * userfaultfd.rst): fill it with zero pages by reading.
 */
static int populate(struct guest *g, struct region *r)
{
	int err;

	if (r->kind != REGION_ANON || has(g, UFFD_FEATURE_WP_UNPOPULATED))
		return 0;
	if (g->pid)
		return error_set(-EOPNOTSUPP, SNAP_FAILURE_REFUSED,
				 "holes of another process's memory cannot be "
				 "write-protected by this kernel (Linux 6.4)");
	err = sys_madvise((void *)(uintptr_t)r->start, r->length,
			  MADV_POPULATE_READ);
	if (err)
		return error_sys(err, SNAP_FAILURE_REFUSED,
				 "cannot populate region %s, which this kernel "
				 "needs (MADV_POPULATE_READ, Linux 5.14)",
				 r->name);
	return 0;
}

static int prepare_region(struct guest *g, struct region *r)
{
	size_t blocks = region_end(r) / BLOCK_BYTES - r->start / BLOCK_BYTES;
	int err = pagestate_init(&r->ps, region_pages(r));

	if (err)
		return err;
	r->blocks = calloc(blocks + 1, sizeof(*r->blocks));
	r->heat = calloc(blocks + 1, sizeof(*r->heat));
	if (!r->blocks || !r->heat)
		return error_nomem("block kinds");
	pagestate_unarm(&r->ps, 0, region_pages(r)); /* not protected yet */
	atomic_fetch_add(&g->unsaved, region_pages(r));
	target_map(&g->target, r);
	return populate(g, r);
}

/* Every region is tried before the first complaint is returned. */
static int check_regions(struct guest *g)
{
	struct complaints c = {0};
	size_t i;
	int err = backing_resolve(&g->regions, g->pid, g, &c);

	if (err)
		return err;
	for (i = 0; i < g->regions.count; i++) {
		struct region *r = g->regions.by_index[i];

		if (r->usable)
			register_region(g, r, &c);
	}
	return complaints_result(&c);
}

int protect_prepare(struct guest *g)
{
	size_t i;
	int err;

	err = g->pid ? attach(g) : 0;
	if (!err)
		err = open_uffd(g);
	if (!err)
		err = check_regions(g);
	if (!err)
		err = residency_open(&g->residency, g->pid);
	if (!err && g->pid)
		err = target_open_other(&g->target, g->pid, g->mem_fd,
					&g->stats);
	else if (!err)
		err = target_open(&g->target, &g->stats);
	for (i = 0; i < g->regions.count && !err; i++)
		err = prepare_region(g, g->regions.by_index[i]);
	if (err) {
		protect_release(g);
		protect_close(g);
	}
	return err;
}

int protect_arm(struct guest *g)
{
	size_t i;
	int err;

	/* Behind what the fault thread is judging (fault.c). */
	pthread_mutex_lock(&g->unprotect_lock);
	atomic_store_explicit(&g->armed, true, memory_order_release);
	pthread_mutex_unlock(&g->unprotect_lock);
	prearm_finish(g);
	for (i = 0; i < g->regions.count; i++) {
		err = populate(g, g->regions.by_index[i]);
		if (err)
			return err;
	}
	return arm_regions(g);
}

/* Unprotect, passing over what has no registered mapping any more. */
static int open_range(struct guest *g, const struct region *r, uint64_t start,
		      uint64_t length)
{
	uint64_t half = align_up(length / 2, r->page_size);
	int err;

	stats_add(&g->stats.unprotect_ioctls, 1);
	stats_add(&g->stats.syscalls, 1);
	err = uffd_unprotect(g->uffd, start, length);
	if (err != -ENOENT)
		return err;
	if (length <= r->page_size)
		return 0;
	err = open_range(g, r, start, half);
	return err ? err : open_range(g, r, start + half, length - half);
}

int protect_open(struct guest *g, struct region *r, struct page_run run)
{
	int err;

	pagestate_open(&r->ps, run.first, run.count);
	err = open_range(g, r, region_addr(r, run.first),
			 run.count * PAGE_BYTES);
	if (err == -EAGAIN) {
		stats_add(&g->stats.unprotect_eagain, 1);
		return err;
	}
	stats_add(&g->stats.unprotect_pages, run.count);
	/* ESRCH: the address space is being torn down, nobody waits in it. */
	if (err && err != -ESRCH)
		return error_sys(err, SNAP_FAILURE_INTERNAL,
				 "cannot unprotect region %s at 0x%" PRIx64,
				 r->name, region_addr(r, run.first));
	return 0;
}

/* Of address space unregistered at once. */
#define RELEASE_SLICE (16 * MIB)

/*
 * Unregistering clears every mark and wakes every waiter, with the address
 * space locked for writing meanwhile (fs/userfaultfd.c:
 * userfaultfd_unregister()): so it goes in slices.  They end at huge pages'
 * borders, as the mapping is cut there for the moment, and a part that was
 * unmapped costs no more than its slice.
 */
static void unregister(struct guest *g, struct region *r)
{
	uint64_t at, end;

	if (!r->registered)
		return;
	r->registered = false;
	for (at = r->start; at < region_end(r); at = end) {
		end = min_u64(align_up(at + 1, RELEASE_SLICE), region_end(r));
		uffd_unregister(g->uffd, at, end - at);
	}
}

/* Bytes of @r that there is anything to save of; the whole where that cannot be
 * told. */
static uint64_t resident_bytes(struct guest *g, const struct region *r)
{
	struct residency_run runs[BLOCK_PAGES];
	uint64_t at, end, bytes = 0;
	struct stat st;
	int n;

	if (r->fd >= 0 && !sys_fstat(r->fd, &st))
		return min_u64((uint64_t)st.st_blocks * 512, r->length);
	if (r->kind == REGION_SHARED || r->kind == REGION_HUGETLB_SHARED)
		return r->length;
	for (at = r->start; at < region_end(r); at = end) {
		end = min_u64(align_up(at + 1, BLOCK_BYTES), region_end(r));
		n = residency_runs(&g->residency, at, end, runs);
		if (n < 0)
			return r->length;
		while (n--)
			bytes += runs[n].end - runs[n].start;
	}
	return bytes;
}

uint64_t protect_resident_bytes(struct guest *g)
{
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; i < g->regions.count; i++)
		bytes += resident_bytes(g, g->regions.by_index[i]);
	return bytes;
}

void protect_release(struct guest *g)
{
	size_t i;

	for (i = 0; i < g->regions.count; i++)
		unregister(g, g->regions.by_index[i]);
}

void protect_close(struct guest *g)
{
	size_t i;

	for (i = 0; i < g->regions.count; i++)
		target_unmap(g->regions.by_index[i]);
	backing_release(&g->regions);
	residency_close(&g->residency);
	target_close(&g->target);
	attach_close(g->attach);
	g->attach = NULL;
}

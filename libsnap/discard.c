// SPDX-License-Identifier: MIT
/* Memory that the guest drops while it is being saved. */
#include "discard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "prearm.h"
#include "sys.h"

/* As many ranges of one process_madvise() as are looked at in one go. */
#define IOVECS_MAX 64u

int discard_open(struct discard *d, struct capture *capture)
{
	char path[48];

	d->capture = capture;
	snprintf(path, sizeof(path), "/proc/%d/task",
		 (int)capture->g->target.pid);
	d->tasks = sys_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (d->tasks < 0)
		return error_sys(d->tasks, SNAP_FAILURE_INTERNAL,
				 "cannot open %s", path);
	return 0;
}

void discard_close(struct discard *d)
{
	if (d->tasks >= 0)
		sys_close(d->tasks);
	d->tasks = -1;
}

/* Asked after the copy: then the copy was of what the snapshot promised. */
static bool is_untouched(struct discard *d, const struct region *r,
			 struct page_run run)
{
	return r->kind == REGION_ANON &&
	       residency_protected(&d->capture->g->residency,
				   region_addr(r, run.first),
				   region_addr(r, run.first + run.count));
}

/* Save what is not saved of @run, which has one kind throughout. */
static int save_piece(struct discard *d, struct region *r, struct page_run run,
		      bool present)
{
	uint64_t at = run.first, end = run.first + run.count;
	int err = 0;

	while (!err && !pagestate_all_saved(&r->ps, at, end - at)) {
		err = capture_reserve(d->capture, present ? end - at : 1);
		if (err)
			break;
		run = capture_take(d->capture, r, at, end);
		if (run.count && present)
			err = capture_pages(d->capture, r, run);
		else if (run.count)
			capture_absent(d->capture, r, run);
		d->unproven |= d->rescuing && run.count && !err &&
			       !is_untouched(d, r, run);
		at = run.first + run.count;
	}
	return err;
}

/* Save the part of a block.  Of shared memory what is absent is read too: its
 * file may have lost it already. */
static int save_block(struct discard *d, struct region *r, struct page_run run)
{
	const struct survey_piece *p;
	unsigned i;
	int err;

	if (r->kind != REGION_ANON)
		return save_piece(d, r, run, true);
	err = survey_look(&d->survey, d->capture->g, r, run);
	for (i = 0; i < d->survey.count && !err; i++) {
		p = &d->survey.pieces[i];
		err = save_piece(d, r, p->run, p->present);
	}
	return err;
}

static int save_in_region(struct discard *d, struct region *r, uint64_t start,
			  uint64_t end)
{
	uint64_t page =
		(align_down(start, r->page_size) - r->start) >> PAGE_SHIFT;
	uint64_t stop = (align_up(end, r->page_size) - r->start) >> PAGE_SHIFT;
	struct page_run run, block;
	int err = 0;

	for (; page < stop && !err; page = run.first + run.count) {
		block = region_block(r, page);
		run.first = page;
		run.count =
			min_u64(stop, block.first + block.count) - run.first;
		err = save_block(d, r, run);
	}
	return err;
}

/* Everything of [start, start + length) that is guest RAM. */
static int save_range(struct discard *d, uint64_t start, uint64_t length)
{
	uint64_t end = align_up(start + length, PAGE_BYTES), at = start;
	struct region *r;
	int err = 0;

	if (start + length < start)
		return 0; /* the kernel refuses it too */
	while (at < end && !err) {
		r = region_from(&d->capture->g->regions, at);
		if (!r || r->start >= end)
			break;
		err = save_in_region(d, r, max_u64(at, r->start),
				     min_u64(end, region_end(r)));
		at = region_end(r);
	}
	return err;
}

static bool drops_memory(uint64_t advice)
{
	switch (advice) {
	case MADV_DONTNEED:
	case MADV_FREE:
	case MADV_REMOVE:
	case 24: /* MADV_DONTNEED_LOCKED, Linux 5.18 */
		return true;
	default:
		return false;
	}
}

/* process_madvise(): the ranges are in the caller's memory. */
static int save_vector(struct discard *d, uint64_t vec, uint64_t count)
{
	struct iovec ranges[IOVECS_MAX];
	struct iovec local = {ranges, sizeof(ranges)};
	struct iovec remote = {(void *)(uintptr_t)vec, sizeof(ranges)};
	ssize_t n;
	size_t i;
	int err = 0;

	remote.iov_len = min_u64(count, IOVECS_MAX) * sizeof(ranges[0]);
	n = sys_process_vm_readv(d->capture->g->target.pid, &local, 1, &remote,
				 1);
	for (i = 0; n > 0 && i < (size_t)n / sizeof(ranges[0]) && !err; i++)
		err = save_range(d, (uintptr_t)ranges[i].iov_base,
				 ranges[i].iov_len);
	return err;
}

/* Look at one thread's system call. */
static int save_for_thread(struct discard *d, const char *tid)
{
	uint64_t a, b, c, e;
	char path[80], text[256];
	ssize_t n;
	long nr;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/syscall",
		 (int)d->capture->g->target.pid, tid);
	fd = sys_open(path, O_RDONLY, 0);
	if (fd < 0)
		return 0; /* it ended */
	n = sys_pread(fd, text, sizeof(text) - 1, 0);
	sys_close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	if (sscanf(text,
		   "%ld 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64 " 0x%" SCNx64,
		   &nr, &a, &b, &c, &e) != 5) {
		d->running++;
		return 0;
	}
	d->callers += nr == SYS_madvise || nr == SYS_process_madvise ||
		      nr == SYS_munmap || nr == SYS_mremap || nr == SYS_brk ||
		      nr == SYS_mmap;
	if (nr == SYS_madvise && drops_memory(c))
		return save_range(d, a, b);
	if (nr == SYS_process_madvise && drops_memory(e))
		return save_vector(d, b, c);
	return 0;
}

int discard_save(struct discard *d)
{
	ssize_t n, at;
	int err = 0;

	d->callers = d->running = 0;
	if (sys_lseek(d->tasks, 0, SEEK_SET) < 0)
		return 0;
	while (!err && (n = sys_getdents(d->tasks, d->dirents,
					 sizeof(d->dirents))) > 0) {
		for (at = 0; at < n && !err;) {
			struct dirent64 *e = (void *)(d->dirents + at);

			if (e->d_name[0] != '.')
				err = save_for_thread(d, e->d_name);
			at += e->d_reclen;
		}
	}
	return err;
}

int discard_rescue(struct discard *d, const struct uffd_msg *msg)
{
	uint64_t start = msg->arg.remove.start, end = msg->arg.remove.end;
	int err;

	if (msg->event != UFFD_EVENT_REMOVE)
		return 0;
	d->rescuing = true;
	d->unproven = false;
	err = save_range(d, start, end - start);
	d->rescuing = false;
	if (!err && !d->unproven)
		return 0;
	return error_set(-ENODATA, SNAP_FAILURE_LOST,
			 "several threads of the guest discarded memory at "
			 "once, and 0x%" PRIx64 "-0x%" PRIx64
			 " was lost before it was saved: try again",
			 start, end);
}

/* Before the snapshot point nothing is saved: it must stay mapped. */
static int check_unbegun(struct guest *g, uint64_t start, uint64_t end)
{
	struct region *r = region_from(&g->regions, start);

	if (!r || r->start >= end)
		return 0;
	return error_set(-EFAULT, SNAP_FAILURE_REFUSED,
			 "region %s was unmapped or moved at 0x%" PRIx64
			 " between snap_prepare() and snap_begin()",
			 r->name, max_u64(start, r->start));
}

/* Whether all guest RAM in [start, end) has been saved. */
static int check_saved(struct guest *g, uint64_t start, uint64_t end,
		       const char *how)
{
	struct region *r;
	uint64_t at = start, first, stop;

	while (at < end) {
		r = region_from(&g->regions, at);
		if (!r || r->start >= end)
			break;
		first = (max_u64(at, r->start) - r->start) >> PAGE_SHIFT;
		stop = (min_u64(end, region_end(r)) - r->start + PAGE_BYTES -
			1) >>
		       PAGE_SHIFT;
		if (!pagestate_all_saved(&r->ps, first, stop - first))
			return error_set(-ENODATA, SNAP_FAILURE_LOST,
					 "the guest %s 0x%" PRIx64 "-0x%" PRIx64
					 " of region %s before it was saved",
					 how, max_u64(at, r->start),
					 min_u64(end, region_end(r)), r->name);
		at = region_end(r);
	}
	return 0;
}

int discard_event(struct guest *g, const struct uffd_msg *msg)
{
	uint64_t start = msg->arg.remove.start, end = msg->arg.remove.end;
	const char *how = "unmapped";
	bool begun = guest_capturing(g);

	switch (msg->event) {
	case UFFD_EVENT_REMOVE:
		stats_add(&g->stats.discards, begun);
		if (begun)
			return check_saved(g, start, end, "discarded");
		prearm_dropped(g, start, end);
		return 0;
	case UFFD_EVENT_UNMAP:
		break;
	case UFFD_EVENT_REMAP:
		start = msg->arg.remap.from;
		end = start + msg->arg.remap.len;
		how = "moved";
		break;
	default:
		return 0;
	}
	return begun ? check_saved(g, start, end, how)
		     : check_unbegun(g, start, end);
}

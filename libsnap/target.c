// SPDX-License-Identifier: MIT
/* Whose memory is captured, and how its pages are read. */
#include "target.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach_sys.h"
#include "error.h"
#include "sys.h"

int target_open(struct target *t, struct stats *stats)
{
	char probe, source = 0;
	struct iovec to = {&probe, 1}, from = {&source, 1};

	*t = (struct target){
		.pid = getpid(), .own = true, .mem_fd = -1, .stats = stats};
	if (sys_process_vm_writev(t->pid, &from, 1, &to, 1) == 1)
		return 0;
	t->mem_fd = sys_open("/proc/self/mem", O_RDONLY, 0);
	if (t->mem_fd < 0)
		return error_sys(
			t->mem_fd, SNAP_FAILURE_REFUSED,
			"neither process_vm_writev() nor "
			"/proc/self/mem may be used to read guest RAM");
	return 0;
}

int target_open_other(struct target *t, pid_t pid, int mem_fd,
		      struct stats *stats)
{
	*t = (struct target){.pid = pid, .stats = stats};
	t->mem_fd = sys_dup(mem_fd);
	return t->mem_fd >= 0
		       ? 0
		       : error_sys(t->mem_fd, SNAP_FAILURE_INTERNAL,
				   "cannot keep the memory of process %d open",
				   (int)pid);
}

void target_close(struct target *t)
{
	if (t->mem_fd >= 0)
		sys_close(t->mem_fd);
	t->mem_fd = -1;
}

void target_map(struct target *t, struct region *r)
{
	void *p;
	int seals;

	/* Of a file that can be cut short a mapping can give SIGBUS. */
	if (r->kind != REGION_SHARED || r->fd < 0)
		return;
	seals = fcntl(r->fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return;
	if (sys_mmap(&p, r->length, PROT_READ, MAP_SHARED, r->fd, r->fd_offset))
		return;
	sys_madvise(p, r->length, MADV_DONTFORK);
	r->alias = p;
}

void target_unmap(struct region *r)
{
	if (r->alias)
		sys_munmap((void *)r->alias, r->length);
	r->alias = NULL;
}

/*
 * Copied without a point of preemption in between where the kernel has
 * voluntary preemption only: mm/process_vm_access.c pins the remote side of one
 * iovec at a time, 16 pages without allocating.
 */
#define PIECE (64 * KIB)
#define PIECES (BLOCK_BYTES / PIECE)

#define READV_WORTH (64 * KIB)

static ssize_t read_own(struct target *t, uint64_t addr, size_t len, void *dst)
{
	struct iovec from = {(void *)addr, len}, to[PIECES];
	size_t n = 0, at;

	assert(len <= BLOCK_BYTES);
	for (at = 0; at < len; at += PIECE)
		to[n++] = (struct iovec){(char *)dst + at,
					 min_u64(len - at, PIECE)};
	return sys_process_vm_writev(t->pid, &from, 1, to, n);
}

/*
 * process_vm_readv() is faster than /proc/PID/mem from some 64 KiB on, but is
 * of whatever program the process runs now; the descriptor is of one address
 * space, and reads 0 bytes when that has gone.  So asked after the copy, it
 * tells that the copy was of the right one.
 */
static ssize_t read_other(struct target *t, uint64_t addr, size_t len,
			  void *dst)
{
	struct iovec to = {dst, len}, from = {(void *)addr, len};
	ssize_t n;
	char probe;

	if (len < READV_WORTH)
		return sys_pread(t->mem_fd, dst, len, addr);
	n = sys_process_vm_readv(t->pid, &to, 1, &from, 1);
	if (n < 0) /* not allowed, or gone */
		return sys_pread(t->mem_fd, dst, len, addr);
	stats_add(&t->stats->syscalls, 1);
	return sys_pread(t->mem_fd, &probe, 1, addr) == 0 ? 0 : n;
}

/* By its file, where that is to be had. */
static bool by_file(const struct target *t, const struct region *r)
{
	if (r->fd < 0)
		return false;
	return r->kind == REGION_HUGETLB_SHARED ||
	       (r->kind == REGION_SHARED && !t->own);
}

int target_read(struct target *t, const struct region *r, uint64_t first,
		uint64_t count, void *dst)
{
	uint64_t addr = region_addr(r, first);
	size_t len = count * PAGE_BYTES;
	ssize_t n;

	if (r->alias) {
		memcpy(dst, r->alias + first * PAGE_BYTES, len);
		return 0;
	}
	stats_add(&t->stats->syscalls, 1);
	if (by_file(t, r))
		n = sys_pread(r->fd, dst, len,
			      r->fd_offset + first * PAGE_BYTES);
	else if (!t->own)
		n = read_other(t, addr, len, dst);
	else if (t->mem_fd >= 0)
		n = sys_pread(t->mem_fd, dst, len, addr);
	else
		n = read_own(t, addr, len, dst);
	if (n == (ssize_t)len)
		return 0;
	if (!n && !t->own)
		return -ESRCH;
	return n < 0 && n != -EIO ? (int)n : -EFAULT;
}

struct page_run target_data(struct target *t, const struct region *r,
			    uint64_t page, uint64_t end)
{
	struct page_run all = {page, end - page}, none = {end, 0};
	int64_t data, hole;
	uint64_t from, to;

	if (r->fd < 0)
		return all;
	stats_add(&t->stats->syscalls, 2);
	data = sys_lseek(r->fd, (int64_t)(r->fd_offset + page * PAGE_BYTES),
			 SEEK_DATA);
	if (data == -ENXIO)
		return none;
	hole = data < 0 ? data : sys_lseek(r->fd, data, SEEK_HOLE);
	if (hole < 0)
		return all;
	from = ((uint64_t)data - r->fd_offset) / PAGE_BYTES;
	to = align_up((uint64_t)hole - r->fd_offset, PAGE_BYTES) / PAGE_BYTES;
	if (from >= end)
		return none;
	return (struct page_run){from, min_u64(to, end) - from};
}

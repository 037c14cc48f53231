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

#include "error.h"
#include "sys.h"

int target_open(struct target *t, pid_t pid, struct stats *stats)
{
	char path[48], probe, source = 0;
	struct iovec to = {&probe, 1}, from = {&source, 1};

	t->pid = pid ? pid : getpid();
	t->stats = stats;
	t->mem_fd = -1;
	if (!pid && sys_process_vm_writev(t->pid, &from, 1, &to, 1) == 1)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)t->pid);
	t->mem_fd = sys_open(path, O_RDONLY, 0);
	if (t->mem_fd < 0)
		return error_sys(t->mem_fd, SNAP_FAILURE_REFUSED,
				 "neither process_vm_writev() nor %s may be "
				 "used to read guest RAM",
				 path);
	return 0;
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
	if (r->kind == REGION_HUGETLB_SHARED && r->fd >= 0)
		n = sys_pread(r->fd, dst, len,
			      r->fd_offset + first * PAGE_BYTES);
	else if (t->mem_fd >= 0)
		n = sys_pread(t->mem_fd, dst, len, addr);
	else
		n = read_own(t, addr, len, dst);
	if (n == (ssize_t)len)
		return 0;
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

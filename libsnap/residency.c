// SPDX-License-Identifier: MIT
/* What is behind a range of addresses, from the page map. */
#include "residency.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "error.h"
#include "sys.h"

/* The uapi of Linux 6.7, which Debian 12's headers lack (fs/proc/task_mmu.c). */
struct scan_region {
	uint64_t start, end, categories;
};

struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask;
	uint64_t return_mask;
};

_Static_assert(sizeof(struct scan_region) == 24, "uapi struct page_region");
_Static_assert(sizeof(struct scan_arg) == 96, "uapi struct pm_scan_arg");

#define PAGEMAP_SCAN_IOCTL _IOWR('f', 16, struct scan_arg)
#define CATEGORY_PRESENT ((uint64_t)1 << 3)
#define CATEGORY_SWAPPED ((uint64_t)1 << 4)
#define CATEGORY_HUGE ((uint64_t)1 << 6)

/* Documentation/admin-guide/mm/pagemap.rst */
#define ENTRY_PRESENT ((uint64_t)1 << 63)
#define ENTRY_SWAPPED ((uint64_t)1 << 62)
#define ENTRY_UFFD_WP ((uint64_t)1 << 57) /* of a marker, too */
#define ENTRY_SWAP_TYPE 0x1fu
/* The highest swap type is that of PTE markers: include/linux/swapops.h. */
#define SWAP_TYPE_MARKER 0x1fu

static int scan(struct residency *r, uint64_t start, uint64_t end,
		struct scan_region *out, unsigned max)
{
	struct scan_arg arg = {
		.size = sizeof(arg),
		.start = start,
		.end = end,
		.vec = (uintptr_t)out,
		.vec_len = max,
		.category_anyof_mask = CATEGORY_PRESENT | CATEGORY_SWAPPED,
		.return_mask =
			CATEGORY_PRESENT | CATEGORY_SWAPPED | CATEGORY_HUGE,
	};

	return sys_ioctl(r->fd, PAGEMAP_SCAN_IOCTL, &arg);
}

int residency_open(struct residency *r, pid_t pid)
{
	struct scan_region one;
	char path[48];

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	else
		snprintf(path, sizeof(path), "/proc/self/pagemap");
	r->fd = sys_open(path, O_RDONLY, 0);
	if (r->fd < 0)
		return error_sys(r->fd, SNAP_FAILURE_REFUSED, "cannot open %s",
				 path);
	r->scan = scan(r, 0, PAGE_BYTES, &one, 1) >= 0;
	return 0;
}

void residency_close(struct residency *r)
{
	if (r->fd >= 0)
		sys_close(r->fd);
	r->fd = -1;
}

/* Add [start, end) to the list, joined to the last run where that is alike. */
static unsigned append(struct residency_run *runs, unsigned n, uint64_t start,
		       uint64_t end, bool huge)
{
	if (n && runs[n - 1].end == start && runs[n - 1].huge == huge) {
		runs[n - 1].end = end;
		return n;
	}
	runs[n] = (struct residency_run){start, end, huge};
	return n + 1;
}

/*
 * Append those pages of [start, end) whose pagemap entry says that there is
 * something.  A swapped entry of the marker type is a hole; without
 * CAP_SYS_ADMIN the type reads as 0 and the page counts as swapped out, which
 * costs a read of zeros and is right all the same.
 */
static int append_entries(struct residency *r, struct residency_run *runs,
			  unsigned n, uint64_t start, uint64_t end)
{
	uint64_t entries[BLOCK_PAGES];
	size_t bytes = (end - start) / PAGE_BYTES * sizeof(entries[0]), i;
	ssize_t got = sys_pread(r->fd, entries, bytes,
				start / PAGE_BYTES * sizeof(entries[0]));

	if (got < 0)
		return (int)got;
	if ((size_t)got != bytes)
		return -ESRCH; /* there is no such address space any more */
	for (i = 0; i < bytes / sizeof(entries[0]); i++) {
		uint64_t e = entries[i], at = start + i * PAGE_BYTES;

		if (!(e & (ENTRY_PRESENT | ENTRY_SWAPPED)))
			continue;
		if (!(e & ENTRY_PRESENT) &&
		    (e & ENTRY_SWAP_TYPE) == SWAP_TYPE_MARKER)
			continue;
		n = append(runs, n, at, at + PAGE_BYTES, false);
	}
	return (int)n;
}

int residency_runs(struct residency *r, uint64_t start, uint64_t end,
		   struct residency_run *runs)
{
	struct scan_region found[BLOCK_PAGES];
	int count, i, n = 0;

	if (!r->scan)
		return append_entries(r, runs, 0, start, end);
	count = scan(r, start, end, found, BLOCK_PAGES);
	if (count < 0)
		return count;
	for (i = 0; i < count && n >= 0; i++) {
		const struct scan_region *f = &found[i];

		if (f->categories & CATEGORY_PRESENT)
			n = (int)append(runs, (unsigned)n, f->start, f->end,
					f->categories & CATEGORY_HUGE);
		else
			n = append_entries(r, runs, (unsigned)n, f->start,
					   f->end);
	}
	return n;
}

int residency_huge(struct residency *r, uint64_t addr)
{
	struct scan_region one;
	int n;

	if (!r->scan)
		return -ENOTSUP;
	addr = align_down(addr, PAGE_BYTES);
	n = scan(r, addr, addr + PAGE_BYTES, &one, 1);
	if (n <= 0)
		return n;
	return (one.categories & CATEGORY_HUGE) != 0;
}

bool residency_protected(struct residency *r, uint64_t start, uint64_t end)
{
	uint64_t entries[BLOCK_PAGES];
	size_t n = (end - start) / PAGE_BYTES, i;

	if (n > BLOCK_PAGES ||
	    sys_pread(r->fd, entries, n * sizeof(entries[0]),
		      start / PAGE_BYTES * sizeof(entries[0])) !=
		    (ssize_t)(n * sizeof(entries[0])))
		return false;
	for (i = 0; i < n; i++)
		if (!(entries[i] & ENTRY_UFFD_WP))
			return false;
	return true;
}

// SPDX-License-Identifier: MIT
/* Memory that RAM is restored into: checked, and emptied. */
#include "restore_dest.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "error.h"
#include "maps.h"
#include "sys.h"
#include "util/util.h"

static bool is_private_hugetlb(const struct vma *v)
{
	return !v->shared && !strncmp(v->name, "/anon_hugepage", 14);
}

/*
 * What makes holes of memory of @v's kind; 0: nothing does.  A shared mapping
 * keeps the pages of its file, which MADV_REMOVE frees.  A private one falls
 * back to what its file holds (mm/madvise.c), so that MADV_DONTNEED makes it
 * zero only if it has none.
 */
static int hole_advice(const struct vma *v)
{
	if (v->shared)
		return MADV_REMOVE;
	if (!v->inode || is_private_hugetlb(v))
		return MADV_DONTNEED;
	return 0;
}

/*
 * How far MADV_DONTNEED really goes: it leaves a huge page that is not in the
 * range as a whole alone, without an error (mm/madvise.c,
 * commit 90e7e7f5ef3f).
 */
static uint64_t advice_end(const struct vma *v, uint64_t start, uint64_t end)
{
	uint64_t page_size;

	if (!is_private_hugetlb(v))
		return end;
	if (maps_page_size(0, v->start, &page_size))
		return start;
	return max_u64(start, align_down(end, page_size));
}

/* Clear a range of one mapping. */
static void clear(const struct vma *v, uint64_t start, uint64_t end)
{
	int advice = hole_advice(v);
	uint64_t to = advice ? advice_end(v, start, end) : start;

	/* Locked, sealed or odd memory cannot have holes: zeros do. */
	if (to > start &&
	    sys_madvise((void *)(uintptr_t)start, to - start, advice))
		to = start;
	memset((void *)(uintptr_t)to, 0, end - to);
}

/* Check that the whole range can be read and written, or clear it, mapping by
 * mapping, when @empty says so. */
static int walk(const struct maps *m, uint64_t start, uint64_t end, bool empty)
{
	const struct vma *v;
	uint64_t at, next;

	for (at = start; at < end; at = next) {
		v = maps_find(m, at);
		if (!v || v->start > at || !v->write || !v->read)
			return error_set(-EFAULT, SNAP_FAILURE_USAGE,
					 "the memory to restore into is not "
					 "mapped for reading and writing at "
					 "0x%" PRIx64,
					 at);
		next = min_u64(v->end, end);
		if (empty)
			clear(v, at, next);
	}
	return 0;
}

int restore_dest_clear(void *dest, size_t len)
{
	uint64_t start = (uint64_t)(uintptr_t)dest;
	struct maps m;
	int err;

	if (!dest || start + len < start)
		return error_set(-EFAULT, SNAP_FAILURE_USAGE,
				 "there is no memory to restore into at %p",
				 dest);
	err = maps_load(&m, 0);
	if (err)
		return err;
	err = walk(&m, start, start + len, false);
	if (!err)
		err = walk(&m, start, start + len, true);
	maps_free(&m);
	return err;
}

// SPDX-License-Identifier: MIT
/* What memory the regions are: kind, page size, file; and what is refused. */
#include "backing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "complaints.h"
#include "error.h"
#include "maps.h"
#include "sys.h"

/* What the mappings are looked up in. */
struct lookup {
	struct maps maps;
	char proc[24]; /* /proc/self or /proc/PID */
	pid_t pid;     /* 0: this process */
	struct complaints *complaints;
};

/* The file of a shared mapping, found without special rights: a descriptor of
 * the process with the same device and inode. */
static int open_descriptor(const struct lookup *l, const struct vma *v)
{
	char path[320];
	struct dirent *e;
	struct stat st;
	int found = -ENOENT;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/fd", l->proc);
	dir = opendir(path);
	if (!dir)
		return -ENOENT;
	while (found < 0 && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/fd/%s", l->proc, e->d_name);
		if (e->d_name[0] == '.' || sys_stat(path, &st))
			continue;
		if (st.st_ino == v->inode && major(st.st_dev) == v->dev_major &&
		    minor(st.st_dev) == v->dev_minor)
			found = sys_open(path, O_RDONLY, 0);
	}
	closedir(dir);
	return found;
}

/* A descriptor for what is mapped at @v, or -errno. */
static int open_mapping(const struct lookup *l, const struct vma *v)
{
	char path[80];
	int fd;

	/* Needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE (fs/proc/base.c). */
	snprintf(path, sizeof(path), "%s/map_files/%" PRIx64 "-%" PRIx64,
		 l->proc, v->start, v->end);
	fd = sys_open(path, O_RDONLY, 0);
	return fd >= 0 || !v->shared ? fd : open_descriptor(l, v);
}

static bool starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static int classify_hugetlb(const struct lookup *l, struct region *r,
			    const struct vma *v, uint64_t page_size)
{
	struct complaints *c = l->complaints;
	int err = 0;

	if (!page_size)
		err = maps_page_size(l->pid, v->start, &page_size);
	if (err)
		return complain(c, err, r, "hides its page size");
	r->kind = v->shared ? REGION_HUGETLB_SHARED : REGION_HUGETLB;
	r->page_size = (uint32_t)page_size;
	if (page_size > BLOCK_BYTES)
		return complain(c, -EOPNOTSUPP, r,
				"is hugetlb with pages of %" PRIu64
				" MiB; only 2 MiB pages can be copied whole",
				page_size / MIB);
	if (!is_aligned(r->start, page_size) ||
	    !is_aligned(r->length, page_size))
		return complain(c, -EINVAL, r,
				"is not aligned to its huge pages of %" PRIu64
				" KiB",
				page_size / KIB);
	return 0;
}

/* A shared mapping whose descriptor @r->fd may be -1. */
static int classify_shared(const struct lookup *l, struct region *r,
			   const struct vma *v)
{
	struct complaints *c = l->complaints;
	struct statfs fs;

	if (r->fd >= 0 && !sys_fstatfs(r->fd, &fs)) {
		if (fs.f_type == HUGETLBFS_MAGIC)
			return classify_hugetlb(l, r, v, (uint64_t)fs.f_bsize);
		if (fs.f_type == TMPFS_MAGIC) {
			r->kind = REGION_SHARED;
			return 0;
		}
		return complain(c, -EINVAL, r, "maps the file %s", v->name);
	}
	if (starts_with(v->name, "/anon_hugepage"))
		return classify_hugetlb(l, r, v, 0);
	if (starts_with(v->name, "/memfd:") ||
	    starts_with(v->name, "/dev/zero") ||
	    starts_with(v->name, "/SYSV") ||
	    starts_with(v->name, "/dev/shm/")) {
		r->kind = REGION_SHARED;
		return 0;
	}
	return complain(c, -EINVAL, r, "maps the file %s", v->name);
}

/* userfaultfd does not take these, nor the zero page's of their tail. */
static int classify_private_file(const struct lookup *l, struct region *r,
				 const struct vma *v)
{
	if (!l->pid)
		return complain(l->complaints, -EINVAL, r,
				"is a private mapping of %s", v->name);
	r->kind = REGION_COPIED;
	return 0;
}

static int classify(const struct lookup *l, struct region *r,
		    const struct vma *v)
{
	struct statfs fs;
	uint64_t size = 0;
	int fd;

	if (v->shared) {
		r->fd = open_mapping(l, v);
		r->fd_offset = v->offset + (r->start - v->start);
		return classify_shared(l, r, v);
	}
	if (!v->inode) {
		r->kind = REGION_ANON;
		return 0;
	}
	fd = open_mapping(l, v);
	if (fd >= 0 && !sys_fstatfs(fd, &fs) && fs.f_type == HUGETLBFS_MAGIC)
		size = (uint64_t)fs.f_bsize;
	if (fd >= 0)
		sys_close(fd);
	if (!size && !starts_with(v->name, "/anon_hugepage"))
		return classify_private_file(l, r, v);
	return classify_hugetlb(l, r, v, size);
}

/* Whether @b continues what @a, right before it, maps. */
static bool continues(const struct vma *a, const struct vma *b)
{
	if (a->shared != b->shared || a->inode != b->inode ||
	    a->dev_major != b->dev_major || a->dev_minor != b->dev_minor)
		return false;
	return !b->shared || b->offset == a->offset + (a->end - a->start);
}

static int resolve_one(const struct lookup *l, struct region *r)
{
	const struct maps *m = &l->maps;
	const struct vma *v, *last = NULL;
	struct complaints *c = l->complaints;
	uint64_t at;
	int err;

	for (at = r->start; at < region_end(r); at = v->end, last = v) {
		v = maps_find(m, at);
		if (!v || v->start > at)
			return complain(c, -EFAULT, r,
					"is not mapped at 0x%" PRIx64, at);
		if (!v->write)
			return complain(c, -EACCES, r,
					"is not writable at 0x%" PRIx64, at);
		if (last && !continues(last, v))
			return complain(c, -EINVAL, r,
					"holds several kinds of memory, a new "
					"one from 0x%" PRIx64
					" on: add each as its own region",
					at);
		if (last)
			continue;
		err = classify(l, r, v);
		if (err)
			return err;
	}
	return 0;
}

int backing_resolve(struct region_table *t, pid_t pid, const void *own,
		    struct complaints *c)
{
	struct lookup l = {.pid = pid, .complaints = c};
	struct region *holder = NULL;
	size_t i;
	int err = maps_load(&l.maps, pid);

	if (err)
		return err;
	if (pid)
		snprintf(l.proc, sizeof(l.proc), "/proc/%d", (int)pid);
	else
		snprintf(l.proc, sizeof(l.proc), "/proc/self");
	for (i = 0; i < t->count; i++) {
		struct region *r = t->by_index[i];

		r->usable = !resolve_one(&l, r);
	}
	maps_free(&l.maps);
	if (!pid)
		holder = region_find(t, (uint64_t)(uintptr_t)own);
	if (holder) {
		holder->usable = false;
		complain(c, -EINVAL, holder,
			 "holds memory of libsnap itself, which would wait for "
			 "itself: give guest RAM a mapping of its own");
	}
	return 0;
}

void backing_release(struct region_table *t)
{
	size_t i;

	for (i = 0; i < t->count; i++) {
		struct region *r = t->by_index[i];

		if (r->fd >= 0)
			sys_close(r->fd);
		r->fd = -1;
	}
}

// SPDX-License-Identifier: MIT
/*
 * Finds the memory of a process that is worth saving.
 *
 * How it works.  A process with a KVM descriptor, or QEMU without one, is a
 * virtual machine: of it the large writable mappings are guest RAM.  Which
 * memslots there are is not told to others by the kernel, and 32 MiB is more
 * than what such a program itself maps at once (video RAM has 16) and less than
 * any guest with an operating system has.  Any other process is saved with all
 * that is its own.
 */
#include "pick.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "maps.h"
#include "sys.h"

#define GUEST_RAM_MIN (32 * MIB)

/* Times the machine's memory, in address space. */
#define SPARSE_MAX 4u

#define KVM_VM "anon_inode:kvm-vm"

static bool has_kvm(pid_t pid)
{
	char path[320], to[32];
	struct dirent *e;
	bool found = false;
	ssize_t n;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid,
			 e->d_name);
		n = readlink(path, to, sizeof(to));
		found = n == (ssize_t)strlen(KVM_VM) &&
			!memcmp(to, KVM_VM, strlen(KVM_VM));
	}
	if (dir)
		closedir(dir);
	return found;
}

static bool is_qemu(pid_t pid)
{
	static const char name[] = "qemu-system-";
	char path[48], comm[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = sys_open(path, O_RDONLY, 0);
	if (fd < 0)
		return false;
	if (sys_read(fd, comm, sizeof(comm) - 1) < 0)
		comm[0] = '\0';
	sys_close(fd);
	return !strncmp(comm, name, strlen(name));
}

/* Memory that a snapshot can hold: not of a file on a disk, nor of a device. */
static bool is_memory(const struct vma *v)
{
	return !v->inode || !strncmp(v->name, "/memfd:", 7) ||
	       !strncmp(v->name, "/dev/shm/", 9) ||
	       !strncmp(v->name, "/dev/zero", 9) ||
	       !strncmp(v->name, "/SYSV", 5) ||
	       !strncmp(v->name, "/anon_hugepage", 14) ||
	       !strncmp(v->name, "/dev/hugepages/", 15);
}

/* Neighbours that differ in advice only are one piece of RAM. */
static bool continues(const struct vma *a, const struct vma *b)
{
	return a->end == b->start && a->shared == b->shared &&
	       a->inode == b->inode && a->write == b->write &&
	       a->exec == b->exec && a->name[0] != '[' && b->name[0] != '[' &&
	       (!b->inode || b->offset == a->offset + (a->end - a->start));
}

static bool is_guest_ram(const struct vma *v, uint64_t end)
{
	return v->read && v->write && !v->exec && is_memory(v) &&
	       v->name[0] != '[' && end - v->start >= GUEST_RAM_MIN;
}

static bool is_own_data(const struct vma *v)
{
	if (!v->read || !v->write || v->shared)
		return false;
	/* [vvar] and the like are not writable; devices have no inode's data. */
	return strncmp(v->name, "/dev/", 5) || is_memory(v);
}

static int take(struct region_table *t, const struct vma *v, uint64_t end,
		const char *why)
{
	struct snap_region spec = {
		.size = sizeof(spec),
		.addr = (void *)(uintptr_t)v->start,
		.length = end - v->start,
	};
	int err = region_add(t, &spec);

	if (!err)
		t->by_index[t->count - 1]->why = why;
	return err;
}

/* Reserved address space of sanitizers and language run-times is terabytes of
 * holes.  To protect it would fill as many page tables. */
static int check_sane(const struct region_table *t, pid_t pid)
{
	const struct region *r, *largest = NULL;
	uint64_t bytes = 0, memory = (uint64_t)sysconf(_SC_PHYS_PAGES);
	size_t i;

	memory *= (uint64_t)sysconf(_SC_PAGESIZE);
	for (i = 0; i < t->count; i++) {
		r = t->by_index[i];
		bytes += r->length;
		if (!largest || r->length > largest->length)
			largest = r;
	}
	if (bytes / SPARSE_MAX <= memory)
		return 0;
	return error_set(-E2BIG, SNAP_FAILURE_REFUSED,
			 "process %d has %" PRIu64 " GiB of address space, "
			 "0x%" PRIx64 "-0x%" PRIx64 " is the most of it, and "
			 "can hardly have memory there: name the ranges",
			 (int)pid, bytes >> 30, largest->start,
			 region_end(largest));
}

static const char *why_guest(const struct vma *v)
{
	if (v->shared)
		return "large shared memory of a virtual machine";
	return "large private memory of a virtual machine";
}

static const char *why_own(const struct vma *v)
{
	if (!strcmp(v->name, "[heap]"))
		return "the heap";
	if (!strcmp(v->name, "[stack]"))
		return "the first thread's stack";
	if (v->inode)
		return "data of a program or library";
	return "private anonymous memory";
}

static int pick(struct region_table *t, const struct maps *m, bool machine)
{
	size_t i, last;
	int err = 0;

	for (i = 0; i < m->count && !err; i = last + 1) {
		const struct vma *v = &m->vmas[i];

		for (last = i; last + 1 < m->count; last++)
			if (!continues(&m->vmas[last], &m->vmas[last + 1]))
				break;
		if (machine && is_guest_ram(v, m->vmas[last].end))
			err = take(t, v, m->vmas[last].end, why_guest(v));
		else if (!machine && is_own_data(v))
			err = take(t, v, m->vmas[last].end, why_own(v));
	}
	return err;
}

int pick_ram(struct region_table *t, pid_t pid)
{
	bool machine = has_kvm(pid) || is_qemu(pid);
	size_t before = t->count;
	struct maps m;
	int err = maps_load(&m, pid);

	if (err)
		return err;
	err = pick(t, &m, machine);
	maps_free(&m);
	if (!err && t->count == before)
		err = error_set(-ENOENT, SNAP_FAILURE_REFUSED,
				"process %d has no %s: name the ranges",
				(int)pid,
				machine ? "mapping of 32 MiB or more that "
					  "could be guest RAM"
					: "private writable memory");
	return err ? err : check_sane(t, pid);
}

// SPDX-License-Identifier: MIT
/* Ways in which another process's memory can change behind a snapshot. */
#include "hazard.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "complaints.h"
#include "maps.h"
#include "sys.h"

struct look {
	const struct region_table *regions;
	pid_t pid;
	unsigned allow;
	struct complaints complaints;
};

/* A region in [start, end), or NULL. */
static const struct region *region_in(const struct look *l, uint64_t start,
				      uint64_t end)
{
	const struct region *r = region_from(l->regions, start);

	return r && r->start < end ? r : NULL;
}

/* ---- flags of mappings ---- */

static bool ksmd_runs(void)
{
	int fd = sys_open("/sys/kernel/mm/ksm/run", O_RDONLY, 0);
	char c = '0';

	if (fd < 0)
		return false;
	if (sys_read(fd, &c, 1) != 1)
		c = '0';
	sys_close(fd);
	return c == '1';
}

/* "VmFlags: rd wr mr um ...": two letters each (fs/proc/task_mmu.c). */
static bool has_flag(const char *line, const char *flag)
{
	const char *at = strchr(line, ':');

	while (at && *at) {
		at += strspn(at, ": \n");
		if (!strncmp(at, flag, 2) && (at[2] == ' ' || at[2] == '\n'))
			return true;
		at = strpbrk(at, " \n");
	}
	return false;
}

static void judge_flags(struct look *l, const struct region *r,
			const char *line, bool ksm)
{
	if (has_flag(line, "um") || has_flag(line, "uw") ||
	    has_flag(line, "ui"))
		complain(&l->complaints, -EBUSY, r,
			 "is registered with another userfaultfd (uffd)");
	if (ksm && has_flag(line, "mg") && !(l->allow & SNAP_HAZARD_KSM))
		complain(&l->complaints, -EBUSY, r,
			 "may be merged by KSM (ksm): write 0 to "
			 "/sys/kernel/mm/ksm/run, or allow it");
}

static int look_at_flags(struct look *l)
{
	const struct region *r = NULL, *told = NULL;
	bool ksm = ksmd_runs();
	char path[48], *line = NULL;
	size_t room = 0;
	struct vma v;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps", (int)l->pid);
	f = fopen(path, "re");
	if (!f)
		return error_sys(-errno, SNAP_FAILURE_REFUSED, "cannot open %s",
				 path);
	while (getline(&line, &room, f) > 0) {
		if (maps_parse_line(line, &v)) {
			r = region_in(l, v.start, v.end);
		} else if (r && r != told && !strncmp(line, "VmFlags:", 8)) {
			judge_flags(l, r, line, ksm);
			told = l->complaints.err ? r : told;
		}
	}
	free(line);
	fclose(f);
	return 0;
}

/* ---- descriptors ---- */

/* A line "    0: 0xADDRESS/LENGTH" of an io_uring's fdinfo. */
static void judge_buffer(struct look *l, const char *line)
{
	const struct region *r;
	uint64_t addr, len;

	if (sscanf(line, " %*u: 0x%" SCNx64 "/%" SCNu64, &addr, &len) != 2 ||
	    !len)
		return;
	r = region_in(l, addr, addr + len);
	if (r)
		complain(&l->complaints, -EBUSY, r,
			 "holds registered buffers of an io_uring, which the "
			 "kernel writes to unseen (io_uring)");
}

static void look_at_ring(struct look *l, const char *fd)
{
	char path[320], *line = NULL;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", (int)l->pid, fd);
	f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0)
		judge_buffer(l, line);
	free(line);
	if (f)
		fclose(f);
}

static bool is_vfio(const char *link)
{
	return !strncmp(link, "/dev/vfio/", 10) ||
	       !strcmp(link, "anon_inode:[vfio-device]") ||
	       !strcmp(link, "/dev/iommu");
}

static void look_at_descriptors(struct look *l)
{
	char path[320], link[64];
	struct dirent *e;
	bool vfio = false;
	ssize_t n;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)l->pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)l->pid,
			 e->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		if (n <= 0)
			continue;
		link[n] = '\0';
		vfio |= is_vfio(link);
		if (!strcmp(link, "anon_inode:[io_uring]") &&
		    !(l->allow & SNAP_HAZARD_IO_URING))
			look_at_ring(l, e->d_name);
	}
	if (dir)
		closedir(dir);
	if (vfio && l->regions->count && !(l->allow & SNAP_HAZARD_VFIO))
		complain(&l->complaints, -EBUSY, l->regions->by_index[0],
			 "can be written to by a device that the process has "
			 "open (vfio)");
}

/* ---- files ---- */

static bool same_file(const struct vma *a, const struct vma *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor;
}

/* Shared mappings of regions, at the front of @m. */
static size_t keep_shared(struct look *l, struct maps *m)
{
	size_t i, n = 0;

	for (i = 0; i < m->count; i++)
		if (m->vmas[i].shared && m->vmas[i].inode &&
		    region_in(l, m->vmas[i].start, m->vmas[i].end))
			m->vmas[n++] = m->vmas[i];
	return n;
}

static void judge_other(struct look *l, const struct maps *own, size_t shared,
			pid_t pid)
{
	struct maps m;
	size_t i, k;

	if (maps_load(&m, pid))
		return; /* it has ended */
	for (i = 0; i < m.count; i++) {
		const struct vma *v = &m.vmas[i];

		if (!v->shared || !v->write || !v->inode)
			continue;
		for (k = 0; k < shared; k++)
			if (same_file(v, &own->vmas[k]))
				break;
		if (k == shared)
			continue;
		complain(&l->complaints, -EBUSY,
			 region_in(l, own->vmas[k].start, own->vmas[k].end),
			 "is mapped writable by process %d too, whose writes "
			 "are not seen (shared)",
			 (int)pid);
		break;
	}
	maps_free(&m);
}

static void look_at_others(struct look *l, const struct maps *own,
			   size_t shared)
{
	DIR *dir = shared ? opendir("/proc") : NULL;
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		pid_t pid = isdigit((unsigned char)e->d_name[0])
				    ? (pid_t)atoi(e->d_name)
				    : 0;

		if (pid && pid != l->pid && pid != getpid())
			judge_other(l, own, shared, pid);
	}
	if (dir)
		closedir(dir);
}

static void look_at_output(struct look *l, const struct maps *m,
			   const char *output)
{
	struct stat st;
	size_t i;

	if (!output || sys_stat(output, &st) || !S_ISREG(st.st_mode))
		return;
	for (i = 0; i < m->count; i++) {
		const struct vma *v = &m->vmas[i];

		if (v->inode != st.st_ino || v->dev_major != major(st.st_dev) ||
		    v->dev_minor != minor(st.st_dev))
			continue;
		complain(&l->complaints, -EBUSY, l->regions->by_index[0],
			 "belongs to a process that has the output %s mapped "
			 "(output): name another file",
			 output);
		return;
	}
}

int hazard_check(const struct region_table *t, pid_t pid, const char *output,
		 unsigned allow)
{
	struct look l = {.regions = t, .pid = pid, .allow = allow};
	struct maps m;
	int err;

	if (!t->count)
		return 0;
	err = maps_load(&m, pid);
	if (!err)
		err = look_at_flags(&l);
	if (err) {
		maps_free(&m);
		return err;
	}
	look_at_descriptors(&l);
	if (!(allow & SNAP_HAZARD_OUTPUT))
		look_at_output(&l, &m, output);
	if (!(allow & SNAP_HAZARD_SHARED))
		look_at_others(&l, &m, keep_shared(&l, &m));
	maps_free(&m);
	return complaints_result(&l.complaints);
}

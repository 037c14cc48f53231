/* SPDX-License-Identifier: MIT */
/* The mappings of a process, from /proc/PID/maps (and smaps for one figure). */
#ifndef SNAP_MAPS_H
#define SNAP_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MAPS_NAME_MAX 128

/** One VMA. */
struct vma {
	uint64_t start, end; /* addresses */
	uint64_t offset;     /* in the file, bytes */
	uint64_t inode;	     /* 0: anonymous */
	unsigned dev_major, dev_minor;
	bool read, write, exec, shared;
	char name[MAPS_NAME_MAX]; /* cut if longer */
};

struct maps {
	struct vma *vmas; /* by address */
	size_t count;
};

/** Read all of @pid (0: this process).  0 or -errno with the text set. */
int maps_load(struct maps *m, pid_t pid);
void maps_free(struct maps *m);

/** Parse one line.  False when it is not one. */
bool maps_parse_line(const char *line, struct vma *out);

/** The VMA that holds @addr, or the next one above it, or NULL. */
const struct vma *maps_find(const struct maps *m, uint64_t addr);

/** KernelPageSize in bytes of the VMA that starts at @start, from smaps, which
 * walks the page table: only where nothing cheaper tells.  0 or -errno. */
int maps_page_size(pid_t pid, uint64_t start, uint64_t *bytes);

#endif

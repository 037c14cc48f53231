/* SPDX-License-Identifier: MIT */
/*
 * The only file with userfaultfd ioctls; one function per ioctl.  All return 0
 * (or what is said) or -errno.
 */
#ifndef SNAP_UFFD_H
#define SNAP_UFFD_H

#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Debian 12's <linux/userfaultfd.h> ends at bit 12. */
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif
_Static_assert(UFFD_FEATURE_WP_UNPOPULATED == 1 << 13, "uapi bit");

/** What this kernel offers, asked on a descriptor that is thrown away. */
int uffd_features(uint64_t *features);

/** A descriptor for this process that traps kernel-mode accesses too:
 * non-blocking, close-on-exec.  From /dev/userfaultfd, else userfaultfd(2).
 * The descriptor or -EPERM, ... with the text set. */
int uffd_open(void);

/** UFFDIO_API with @features; succeeds once a descriptor. */
int uffd_enable(int fd, uint64_t features);

/** UFFDIO_REGISTER, write-protect mode.  -EOPNOTSUPP when the range was taken
 * but cannot be write-protected. */
int uffd_register(int fd, uint64_t start, uint64_t length);
int uffd_unregister(int fd, uint64_t start, uint64_t length);

/** UFFDIO_WRITEPROTECT.  On error a part of the range may have changed; it may
 * be repeated whole (mm/userfaultfd.c: mwriteprotect_range()). */
int uffd_protect(int fd, uint64_t start, uint64_t length);
int uffd_unprotect(int fd, uint64_t start, uint64_t length);

/** Read up to @n messages; how many, or -EAGAIN. */
int uffd_read(int fd, struct uffd_msg *msgs, unsigned n);

/** An open /proc/self/fdinfo/@fd for uffd_pending(). */
int uffd_open_fdinfo(int fd);

/** Faults that wait to be read, not counting events. */
int uffd_pending(int fdinfo, uint64_t *pending);

#endif

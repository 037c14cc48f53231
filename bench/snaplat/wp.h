/* SPDX-License-Identifier: MIT */
/* Write protection by userfaultfd, as bare as the reference modes need it. */
#ifndef SNAPLAT_WP_H
#define SNAPLAT_WP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A userfaultfd with the range registered; nothing is protected yet. */
int wp_open(void *addr, size_t len);
/** Protect or unprotect, and wake. */
void wp_set(int fd, uintptr_t at, size_t len, bool on);
/** The addresses of waiting writes, @max at most; 0 when there are none. */
unsigned wp_faults(int fd, uint64_t *address, unsigned max);
/** Unregister and close. */
void wp_close(int fd, void *addr, size_t len);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Stops, saves the devices of, and continues a QEMU over its QMP socket.
 *
 * How it works.  One command at a time, each with an id and a deadline; events
 * and stale answers in between are passed over.  The device state comes through
 * a descriptor of ours that QEMU is given (add-fd), so no path has to be
 * writable for both.  Once `stop` has been sent, qmp_cont() is called whatever
 * happens; where the connection is lost it makes a new one.
 */
#ifndef SNAPD_QMP_H
#define SNAPD_QMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"

struct qmp;

/** Connect and greet.  0 or -1 with @f set (EXIT_REFUSED). */
int qmp_open(struct qmp **out, const char *path, struct failure *f);

/**
 * Where main memory is in QEMU's address space: mappings alone do not tell,
 * as the kernel joins it with what is mapped beside it.  0, or -1 when QEMU
 * does not say; @f is set only where the connection is no good any more.
 */
int qmp_guest_ram(struct qmp *q, uint64_t *start, uint64_t *length,
		  struct failure *f);

/** Stop the guest.  0 or -1; after -1 too qmp_cont() must be called. */
int qmp_stop(struct qmp *q, struct failure *f);

/** Device state of the stopped guest, to be freed.  0 or -1. */
int qmp_device_state(struct qmp *q, void **data, size_t *len,
		     struct failure *f);

/** Continue the guest, if it ran before.  0 or -1. */
int qmp_cont(struct qmp *q, struct failure *f);

void qmp_close(struct qmp *q);

#endif

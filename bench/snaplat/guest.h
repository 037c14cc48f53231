/* SPDX-License-Identifier: MIT */
/* A guest whose latency is measured: its RAM, its work, its probe. */
#ifndef SNAPLAT_GUEST_H
#define SNAPLAT_GUEST_H

#include "ram.h"
#include "station.h"

#include <stdbool.h>

struct guest;

/** What kinds of guest do differently.  They die() rather than fail. */
struct guest_ops {
	const char *name;
	/** Called once; the RAM is there and filled. */
	void (*create)(struct guest *g);
	/** Begin and end the work.  The station is ready. */
	void (*start)(struct guest *g);
	void (*stop)(struct guest *g);
	/** When pause() returns nothing touches the RAM. */
	void (*pause)(struct guest *g);
	void (*resume)(struct guest *g);
	void (*destroy)(struct guest *g);
	/** What KVM counts, as in enum guest_counter; NULL: no VM. */
	void (*counters)(struct guest *g, uint64_t *out);
};

/** Counters of a virtual machine and of its CPU. */
enum guest_counter {
	COUNTER_PF_TAKEN,
	COUNTER_PF_FIXED,
	COUNTER_FLUSH,
	COUNTER_FLUSH_REQUESTS,
	COUNTER_PAGES_4K,
	COUNTER_PAGES_2M,
	COUNTERS,
};
const char *guest_counter_name(enum guest_counter c);

extern const struct guest_ops guest_process, guest_kvm;

struct guest {
	const struct guest_ops *ops;
	void *priv;
	struct ram ram;
	struct station *station; /* page aligned, STATION_BYTES long */
	unsigned threads;	 /* that work */
	uint64_t clock_ahead;	 /* ticks here less the guest's */
};

#define STATION_BYTES ((sizeof(struct station) + 4095) & ~(size_t)4095)

/** Make RAM, station and guest.  false: not on this machine, see @why. */
bool guest_make(struct guest *g, const struct guest_ops *ops,
		enum ram_kind backing, size_t mem, const char **why);
void guest_free(struct guest *g);

/** Fill the RAM for @kind and let the guest work.  The histograms are empty
 * then. */
void guest_start(struct guest *g, enum pattern kind);
void guest_stop(struct guest *g);

/** Put the RAM back into the state of before: whole huge pages, pages that are
 * the process's own.  The guest must not run, or be paused. */
void guest_mend(struct guest *g);

/** Steps of the work; of an idle guest the touches of the probe. */
uint64_t guest_work(const struct guest *g);

/** Bytes of the RAM that are in huge pages. */
uint64_t guest_huge_bytes(const struct guest *g);

/** Nanoseconds a tick, 32.32, measured once. */
uint64_t guest_scale(void);

#endif

/* SPDX-License-Identifier: MIT */
/* What the engine is compared with, measured in the same run. */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include "bench.h"

/** One thread's memcpy of the RAM, MiB/s: into a buffer of the same length,
 * or, with @ring, round and round in 64 MiB.  All populated before. */
double peer_memcpy(const struct ram *ram, uint8_t *to, size_t room);

/** Memory of huge pages to copy into. */
uint8_t *peer_buffer(size_t len);
void peer_buffer_free(uint8_t *p, size_t len);

/**
 * Writes @len bytes of the RAM to a new file in @dir as plainly as possible:
 * preallocated, O_DIRECT, 2 MiB at a time, four in flight by io_uring, fsync.
 * MiB/s, the preallocation not counted, as it is not in a snapshot's time.
 */
double peer_direct(const char *dir, const struct ram *ram, size_t len);

/** `zstd -1 -T2` of the RAM's bytes from a file in memory to /dev/null, MiB/s;
 * 0 when there is no zstd. */
double peer_zstd(const struct ram *ram);

/**
 * The bare loop: protect everything, then "copy one page (one huge page of
 * THP), unprotect, wake" for @seconds while @load and a probe write.  Adds the
 * probe's faults to @probe.
 */
void peer_bare(const struct ram *ram, enum load_kind load, double seconds,
	       struct samples *probe);

/**
 * What the kernel takes for page tables when nothing is copied or written at
 * all: protect everything, unprotect 2 MiB at a time, unregister; one thread.
 * As a rate, MiB/s.
 */
double peer_walks(const struct ram *ram);

#endif

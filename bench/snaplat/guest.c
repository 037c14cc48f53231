// SPDX-License-Identifier: MIT
/* What all kinds of guest have in common: RAM and station. */
#include "guest.h"

#include "bench.h"
#include "proc.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

const char *guest_counter_name(enum guest_counter c)
{
	static const char *const names[COUNTERS] = {
		"pf_taken",	    "pf_fixed",
		"remote_tlb_flush", "remote_tlb_flush_requests",
		"pages_4k",	    "pages_2m"};

	return names[c];
}

uint64_t guest_scale(void)
{
	static uint64_t scale;
	struct timespec nap = {.tv_nsec = 20000000};
	uint64_t t0, t1;
	double s0, s1;

	if (scale)
		return scale;
	s0 = now_s();
	t0 = ticks();
	nanosleep(&nap, NULL);
	t1 = ticks();
	s1 = now_s();
	scale = (uint64_t)((s1 - s0) * 1e9 / (double)(t1 - t0) * 0x1p32);
	return scale;
}

static struct station *station_make(void)
{
	void *p = mmap(NULL, STATION_BYTES, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("no memory for the station");
	return p;
}

bool guest_make(struct guest *g, const struct guest_ops *ops,
		enum ram_kind backing, size_t mem, const char **why)
{
	int err;

	*g = (struct guest){.ops = ops, .threads = 1};
	err = ram_make(&g->ram, backing, mem);
	if (err) {
		*why = err == -ENOTSUP ? ram_why() : strerror(-err);
		return false;
	}
	/* For pattern exec. */
	if (mprotect(g->ram.addr, mem, PROT_READ | PROT_WRITE | PROT_EXEC))
		die("cannot make the RAM executable: %s", strerror(errno));
	g->station = station_make();
	ops->create(g);
	return true;
}

void guest_free(struct guest *g)
{
	g->ops->destroy(g);
	munmap(g->station, STATION_BYTES);
	ram_free(&g->ram);
}

void guest_start(struct guest *g, enum pattern kind)
{
	uint64_t period = g->station->period, think = g->station->think;

	memset(g->station, 0, sizeof(*g->station));
	*g->station = (struct station){
		.scale = guest_scale(),
		.period = period,
		.think = think,
		.ram = (uintptr_t)g->ram.addr,
		.pages = g->ram.len / PATTERN_PAGE,
		.pattern = kind,
	};
	g->ops->start(g);
}

void guest_stop(struct guest *g)
{
	g->ops->stop(g);
}

uint64_t guest_huge_bytes(const struct guest *g)
{
	struct proc_range range;

	proc_range(g->ram.addr, g->ram.len, &range);
	return range.anon_huge_bytes;
}

/* A write a page takes the faults that a fork or a memfd leave behind. */
__attribute__((no_sanitize("thread"))) void guest_mend(struct guest *g)
{
	if (g->ram.kind == RAM_THP && guest_huge_bytes(g) < g->ram.len)
		(void)madvise(g->ram.addr, g->ram.len, MADV_COLLAPSE);
	for (size_t at = 0; at < g->ram.len; at += PATTERN_PAGE) {
		volatile uint8_t *byte = g->ram.addr + at + 64 * 63;

		*byte = *byte;
	}
}

uint64_t guest_work(const struct guest *g)
{
	return g->station->pattern == PATTERN_IDLE ? peek(&g->station->touches)
						   : peek(&g->station->work);
}

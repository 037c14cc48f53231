// SPDX-License-Identifier: MIT
/*
 * QEMU's way: one thread does the bulk and the faults, a page at a time.
 *
 * As in ram_save_host_page() and ram_find_and_save_block() of migration/ram.c:
 * a page that somebody waits for is taken first, else the next one in order;
 * it is looked at for zero, written by write(2), and only then unprotected by
 * an ioctl of its own.
 */
#include "mode.h"

#include "bench.h"
#include "wp.h"

#include <stdlib.h>

struct page_mode {
	struct shot *s;
	int uffd, fd;
	uint8_t *saved; /* one a page */
};

static void save_page(struct page_mode *m, size_t page)
{
	uint8_t *at = m->s->g->ram.addr + page * PAGE;

	if (!m->saved[page] && !sink_is_zero(at, PAGE))
		sink_write(m->fd, at, PAGE);
	m->saved[page] = 1;
	wp_set(m->uffd, (uintptr_t)at, PAGE, false);
}

static void save_all(struct page_mode *m)
{
	const struct ram *ram = &m->s->g->ram;
	uint64_t address;

	for (size_t next = 0; next < ram->len / PAGE;) {
		if (wp_faults(m->uffd, &address, 1)) {
			m->s->faults++;
			save_page(m, (address - (uintptr_t)ram->addr) / PAGE);
		} else if (m->saved[next]) {
			next++;
		} else {
			save_page(m, next++);
		}
	}
}

static void page_take(struct shot *s)
{
	const struct ram *ram = &s->g->ram;
	struct page_mode m = {.s = s};
	char path[512];

	m.fd = sink_open(s, path);
	m.saved = calloc(ram->len / PAGE, 1);
	if (!m.saved)
		die("out of memory");
	m.uffd = wp_open(ram->addr, ram->len);
	s->has_faults = true;
	shot_pause(s);
	wp_set(m.uffd, (uintptr_t)ram->addr, ram->len, true);
	shot_resume(s);
	save_all(&m);
	/* Also wakes whoever faulted on a page just before it was opened. */
	wp_close(m.uffd, ram->addr, ram->len);
	shot_end(s);
	sink_close(s, m.fd, path);
	s->done = ticks();
	free(m.saved);
}

const struct mode mode_page = {.name = "page", .take = page_take};

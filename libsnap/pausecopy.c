// SPDX-License-Identifier: MIT
/* Copies, inside the pause, the memory that userfaultfd does not take. */
#include "pausecopy.h"

#include <errno.h>

#include "capture.h"

static int too_big(const struct guest *g)
{
	return error_set(-E2BIG, SNAP_FAILURE_REFUSED,
			 "process %d has more private mappings of files than "
			 "can be copied while it stands: raise max_buffer, or "
			 "name the ranges to be saved",
			 (int)g->pid);
}

static int copy_region(struct capture *c, struct region *r)
{
	struct page_run block, run;
	uint64_t page, end = region_pages(r);
	int err = 0;

	for (page = 0; page < end && !err; page = run.first + run.count) {
		block = region_block(r, page);
		err = capture_reserve(c, block.count);
		if (err == -EAGAIN)
			return too_big(c->g);
		if (err)
			break;
		run = capture_take(c, r, page, block.first + block.count);
		if (run.count)
			err = capture_pages(c, r, run);
	}
	/* Nothing is protected there that would have to be opened. */
	if (!err)
		pagestate_open(&r->ps, 0, end);
	return err;
}

int pausecopy_run(struct guest *g)
{
	struct capture c = {.g = g, .in_pause = true};
	uint64_t bytes = 0,
		 room = bufpool_count(g->pool) / 2 * BUF_PAYLOAD_ROOM;
	size_t i;
	int err = 0;

	for (i = 0; i < g->regions.count; i++)
		if (g->regions.by_index[i]->kind == REGION_COPIED)
			bytes += g->regions.by_index[i]->length;
	if (bytes > room)
		return too_big(g);
	for (i = 0; i < g->regions.count && !err; i++)
		if (g->regions.by_index[i]->kind == REGION_COPIED)
			err = copy_region(&c, g->regions.by_index[i]);
	capture_submit(&c);
	return err;
}

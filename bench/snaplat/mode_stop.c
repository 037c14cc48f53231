// SPDX-License-Identifier: MIT
/* The guest stands still until its RAM is written. */
#include "mode.h"

#include "bench.h"

static void stop_take(struct shot *s)
{
	char path[512];
	int fd = sink_open(s, path);

	shot_pause(s);
	for (size_t at = 0; at < s->g->ram.len; at += BLOCK)
		if (!sink_is_zero(s->g->ram.addr + at, BLOCK))
			sink_write(fd, s->g->ram.addr + at, BLOCK);
	sink_close(s, fd, path);
	shot_resume(s);
	shot_end(s);
	s->done = s->end;
}

const struct mode mode_stop = {.name = "stop", .take = stop_take};

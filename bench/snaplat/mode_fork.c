// SPDX-License-Identifier: MIT
/* A child process writes the copy that fork() makes, as redis does. */
#include "mode.h"

#include "bench.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *fork_refuse(const struct guest *g)
{
	if (g->ram.kind == RAM_MEMFD)
		return "fork() makes no copy of shared memory";
	return NULL;
}

static void write_all(struct shot *s, int fd)
{
	for (size_t at = 0; at < s->g->ram.len; at += BLOCK)
		if (!sink_is_zero(s->g->ram.addr + at, BLOCK))
			sink_write(fd, s->g->ram.addr + at, BLOCK);
}

static void fork_take(struct shot *s)
{
	char path[512];
	int fd = sink_open(s, path), status = -1;
	pid_t child;

	shot_pause(s);
	child = fork();
	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child) {
		write_all(s, fd);
		if (s->dir && fsync(fd))
			_exit(1);
		_exit(0);
	}
	shot_resume(s);
	if (waitpid(child, &status, 0) != child || status)
		die("the child failed");
	shot_end(s);
	s->done = s->end;
	close(fd);
	if (path[0])
		unlink(path);
}

const struct mode mode_fork = {
	.name = "fork", .refuse = fork_refuse, .take = fork_take};

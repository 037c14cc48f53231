/* SPDX-License-Identifier: MIT */
/*
 * A file that appears under its name complete or not at all: written under a
 * temporary name in the same directory, renamed when all is on disk.
 */
#ifndef SNAP_OUTPUT_H
#define SNAP_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

struct output {
	char *path;
	char *directory;
	char *temporary; /**< NULL: nothing to remove */
	int fd;
	bool direct; /**< O_DIRECT: all in multiples of 4096 */
	bool overwrite;
};

/**
 * Check @path, create the temporary file beside it and reserve @reserve bytes
 * of disk space (0: none).  @flags is OR of enum snap_flags.  Whether the file
 * system takes direct writes is found by trying one.
 *
 * Returns 0, -EEXIST, -EISDIR, -EINVAL (a FIFO, device or socket), -ENOENT (no
 * such directory), -EACCES, -ENOSPC, -EDQUOT or what a system call gave, with
 * the text set and nothing left behind.
 */
int output_create(struct output *o, const char *path, unsigned flags,
		  uint64_t reserve);

/** Cut the file to @length bytes and wait until it is on disk.  Returns 0 or
 * -errno with the text set. */
int output_sync(struct output *o, uint64_t length);

/** After output_sync(): give the file its name and wait until that is on disk
 * too.  Returns 0, -EEXIST (the name was taken meanwhile) or what a system
 * call gave, with the text set. */
int output_publish(struct output *o);

/** Close, remove the temporary file if there still is one, free. */
void output_release(struct output *o);

#endif

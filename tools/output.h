/* SPDX-License-Identifier: MIT */
/* A file that appears under its name complete or not at all. */
#ifndef SNAPCTL_OUTPUT_H
#define SNAPCTL_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "snapctl.h"

struct output {
	const char *path;
	bool replace; /**< an existing regular file may be replaced */
	char *temporary;
	int fd;
};

/** Set when SIGINT, SIGTERM or SIGHUP asks for the end. */
bool output_cancelled(void);

/**
 * Make a temporary file, readable by its owner only, beside @path.  From here
 * to output_finish() the three signals only set output_cancelled().
 * Every call returns EXIT_DONE or a code whose reason was said.
 */
enum exit_code output_open(struct output *o, const char *path, bool replace);

/** Write all of @len bytes at @offset. */
enum exit_code output_write(struct output *o, const void *data, size_t len,
			    uint64_t offset);

/** Make the file @len bytes long; what was not written is a hole. */
enum exit_code output_set_length(struct output *o, uint64_t len);

/** With EXIT_DONE sync the file and give it its name; with another code, or
 * when that fails, remove it.  Returns the code for the whole. */
enum exit_code output_finish(struct output *o, enum exit_code code);

#endif

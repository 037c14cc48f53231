/* SPDX-License-Identifier: MIT */
/* The command line of snapd. */
#ifndef SNAPD_OPTIONS_H
#define SNAPD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"
#include "libsnap.h"
#include "log.h"
#include "program.h"

enum progress_kind { PROGRESS_AUTO, PROGRESS_PLAIN, PROGRESS_NONE };

/** Addresses of the process. */
struct range {
	uint64_t start, end;
};

struct options {
	int pid;
	const char *output; /**< "-" is standard output */
	struct range *ranges;
	size_t range_count;
	const char *qmp;				/**< socket, or NULL */
	const char *pause_cmd, *resume_cmd, *state_cmd; /**< or NULL */
	enum snap_compress compress;
	int level;
	unsigned workers;
	uint64_t max_buffer, bandwidth; /**< 0: the library's default */
	unsigned fault_limit_ms;	/**< 0: none */
	unsigned allow;			/**< OR of enum snap_hazard */
	unsigned audit;			/**< percent */
	enum progress_kind progress;
	bool json;

	const char *listen; /**< socket of the daemon, or NULL */
	enum log_level log_level;
};

/** The defaults. */
void options_init(struct options *o);

/**
 * Set one option by its long name.  @value must stay as long as @o is used.
 * 0, or -1 with @f set.
 */
int options_set(struct options *o, const char *name, const char *value,
		struct failure *f);

/**
 * Parse.  EXIT_DONE with *@done set when all that was asked for is on stdout
 * (--help); EXIT_USAGE when the reason was said.  @o is to be freed in each
 * case; o->json is set whenever --json was there.
 */
enum exit_code options_parse(struct options *o, int argc, char **argv,
			     bool *done);
void options_free(struct options *o);

#endif

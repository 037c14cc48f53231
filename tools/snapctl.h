/* SPDX-License-Identifier: MIT */
/* What the subcommands of snapctl share: their table, exit codes, messages. */
#ifndef SNAPCTL_H
#define SNAPCTL_H

#include <stddef.h>

/** Exit codes; snapd's are the same. */
enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_REFUSED = 3,
	EXIT_GONE = 4,
	EXIT_OUTPUT = 5,
	EXIT_IMAGE = 6,
	EXIT_CANCELLED = 7,
};

/** A subcommand; each has a file of its own and a line in main.c. */
struct command {
	const char *name;
	const char *synopsis; /**< what follows the name */
	const char *summary;  /**< one line for the list of commands */

	/** @argv[0] is the program, options and operands follow. */
	enum exit_code (*run)(const struct command *c, int argc, char **argv);
};

extern const struct command command_info;
extern const struct command command_verify;
extern const struct command command_export;

/** Say on stderr how @c is used; returns EXIT_USAGE. */
enum exit_code usage_error(const struct command *c);

/** The same on stdout, because it was asked for; returns EXIT_DONE. */
enum exit_code usage_help(const struct command *c);

/** Say one sentence on stderr; returns @code. */
enum exit_code fail(enum exit_code code, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/** Say what the library's last failed call said; returns the code of its
 * class. */
enum exit_code fail_library(void);

/**
 * Copy a text that may come out of an image into @dst, fit for a terminal:
 * what is not printable ASCII becomes \xNN.  Returns @dst.
 */
char *printable(char *dst, size_t size, const char *text);

#endif

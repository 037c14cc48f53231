/* SPDX-License-Identifier: MIT */
/* What the subcommands of snapctl share. */
#ifndef SNAPCTL_H
#define SNAPCTL_H

#include "program.h"

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
extern const struct command command_probe;
extern const struct command command_start;
extern const struct command command_status;
extern const struct command command_cancel;
extern const struct command command_wait;
extern const struct command command_list;
extern const struct command command_metrics;

/** --socket, or NULL. */
extern const char *socket_path;

/** Say on stderr how @c is used; returns EXIT_USAGE. */
enum exit_code usage_error(const struct command *c);

/** The same on stdout, because it was asked for; returns EXIT_DONE. */
enum exit_code usage_help(const struct command *c);

#endif

// SPDX-License-Identifier: MIT
/* snapctl - look at snapshot images and take them apart; one file a command. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "libsnap.h"
#include "snapctl.h"

static const struct command *const commands[] = {
	&command_info,	&command_verify,  &command_export, &command_probe,
	&command_start, &command_status,  &command_cancel, &command_wait,
	&command_list,	&command_metrics,
};

const char *socket_path;

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *to, const struct command *c)
{
	fprintf(to, "usage: snapctl %s %s\n", c->name, c->synopsis);
}

enum exit_code usage_error(const struct command *c)
{
	print_usage(stderr, c);
	return EXIT_USAGE;
}

enum exit_code usage_help(const struct command *c)
{
	print_usage(stdout, c);
	return EXIT_DONE;
}

static void print_help(FILE *to)
{
	size_t i;

	fprintf(to, "usage: snapctl [--socket SOCKET] COMMAND ...\n\n");
	for (i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  snapctl %s %s\n        %s\n", commands[i]->name,
			commands[i]->synopsis, commands[i]->summary);
	fprintf(to,
		"\nExit codes: 0 done, 1 failed, 2 wrong usage, 5 the output "
		"failed,\n6 the image is damaged or incomplete, "
		"7 cancelled.\n");
}

static enum exit_code run_command(int argc, char **argv)
{
	const char *name = argv[0];
	size_t i;

	for (i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i]->name, name) != 0)
			continue;
		/* getopt() prints argv[0], and 0 makes it start anew. */
		argv[0] = (char *)"snapctl";
		optind = 0;
		return commands[i]->run(commands[i], argc, argv);
	}
	return fail(EXIT_USAGE,
		    "there is no command %s; snapctl --help lists them", name);
}

static enum exit_code run(int argc, char **argv)
{
	static const struct option options[] = {
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{"socket", required_argument, NULL, 's'},
		{0},
	};

	int c;

	/* "+": the command's options are not ours. */
	while ((c = getopt_long(argc, argv, "+hV", options, NULL)) != -1) {
		switch (c) {
		case 'h':
			print_help(stdout);
			return EXIT_DONE;
		case 'V':
			printf("snapctl %s\n", snap_version());
			return EXIT_DONE;
		case 's':
			socket_path = optarg;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind < argc)
		return run_command(argc - optind, argv + optind);
	print_help(stderr);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	enum exit_code code = run(argc, argv);

	if ((fflush(stdout) || ferror(stdout)) && code == EXIT_DONE)
		code = fail(EXIT_OUTPUT, "cannot write to standard output");
	return code;
}

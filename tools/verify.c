// SPDX-License-Identifier: MIT
/* snapctl verify - every checksum of an image, and every page there once. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "libsnap.h"
#include "snapctl.h"

static enum exit_code run(const struct command *c, int argc, char **argv)
{
	static const struct option options[] = {
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *path;
	int opt;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (opt == 'h')
			return usage_help(c);
		return usage_error(c);
	}
	if (argc - optind != 1)
		return usage_error(c);
	path = argv[optind];
	if (snap_image_verify(path))
		return fail_library();
	printf("%s: complete, every checksum matches, every page is there "
	       "once\n",
	       strcmp(path, "-") == 0 ? "standard input" : path);
	return EXIT_DONE;
}

const struct command command_verify = {
	.name = "verify",
	.synopsis = "IMAGE",
	.summary = "Check all of an image; \"-\" reads it from standard input.",
	.run = run,
};

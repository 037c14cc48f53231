// SPDX-License-Identifier: MIT
/* snapctl --socket SOCKET start: have the daemon save a process. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

/* The daemon may run in another directory. */
static json_t *absolute(const char *path)
{
	json_t *o = NULL;
	char *cwd;

	if (path[0] == '/' || !path[0])
		return json_string(path);
	cwd = getcwd(NULL, 0);
	if (cwd)
		o = json_sprintf("%s/%s", cwd, path);
	free(cwd);
	return o;
}

/* --max-buffer 64M is max_buffer: "64M"; the daemon judges it. */
static bool add_option(json_t *params, const char *name, const char *value)
{
	char key[64], *at;

	if (!strcmp(name, "range"))
		return !json_array_append_new(json_object_get(params, "ranges"),
					      json_string(value));
	snprintf(key, sizeof(key), "%s", name);
	for (at = key; *at; at++)
		if (*at == '-')
			*at = '_';
	return !json_object_set_new(params, key,
				    strcmp(name, "output") ? json_string(value)
							   : absolute(value));
}

static enum exit_code read_options(json_t *params, int argc, char **argv)
{
	int i;

	for (i = 1; i + 1 < argc; i += 2) {
		if (strncmp(argv[i], "--", 2) != 0 || !argv[i][2])
			return usage_error(&command_start);
		if (!add_option(params, argv[i] + 2, argv[i + 1]))
			return fail(EXIT_USAGE, "%s %s: this is not UTF-8",
				    argv[i], argv[i + 1]);
	}
	return i == argc && argc > 1 ? EXIT_DONE : usage_error(&command_start);
}

static enum exit_code run(const struct command *self, int argc, char **argv)
{
	json_t *params, *result = NULL;
	struct client *c = NULL;
	enum exit_code code;

	if (argc == 2 && !strcmp(argv[1], "--help"))
		return usage_help(self);
	params = json_pack("{s:[]}", "ranges");
	code = read_options(params, argc, argv);
	if (code == EXIT_DONE &&
	    !json_array_size(json_object_get(params, "ranges")))
		json_object_del(params, "ranges");
	if (code == EXIT_DONE)
		code = client_open(&c);
	if (code == EXIT_DONE)
		code = client_call(c, "snapshot.start", json_incref(params),
				   &result, NULL);
	if (code == EXIT_DONE)
		printf("%s\n",
		       json_string_value(json_object_get(result, "id")));
	json_decref(result);
	json_decref(params);
	client_close(c);
	return code;
}

const struct command command_start = {
	.name = "start",
	.synopsis = "--pid PID --output FILE [--OPTION VALUE]...",
	.summary = "begin a snapshot with the daemon at --socket, print its "
		   "id; options as snapd's",
	.run = run,
};

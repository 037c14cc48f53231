// SPDX-License-Identifier: MIT
/* snapctl --socket SOCKET status, cancel, wait, list and metrics. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

static void print_json(const json_t *o)
{
	json_dumpf(o, stdout, JSON_INDENT(2));
	putchar('\n');
}

/* Call @method for the snapshot that is named, or without one. */
static enum exit_code call(const struct command *self, int argc, char **argv,
			   const char *method, json_t **result)
{
	int operands = strncmp(self->synopsis, "ID", 2) ? 0 : 1;
	struct client *c = NULL;
	enum exit_code code;

	if (argc == 2 && !strcmp(argv[1], "--help")) {
		*result = NULL;
		return usage_help(self);
	}
	if (argc != 1 + operands || (operands && argv[1][0] == '-'))
		return usage_error(self);
	code = client_open(&c);
	if (code == EXIT_DONE)
		code = client_call(c, method,
				   operands ? json_pack("{s:s}", "id", argv[1])
					    : json_object(),
				   result, NULL);
	client_close(c);
	return code;
}

static enum exit_code call_and_print(const struct command *self, int argc,
				     char **argv, const char *method)
{
	json_t *result = NULL;
	enum exit_code code = call(self, argc, argv, method, &result);

	if (json_is_string(result))
		fputs(json_string_value(result), stdout);
	else if (result && json_object_size(result) + json_array_size(result))
		print_json(result);
	else if (json_is_array(result))
		puts("[]");
	json_decref(result);
	return code;
}

static enum exit_code run_status(const struct command *self, int argc,
				 char **argv)
{
	return call_and_print(self, argc, argv, "snapshot.status");
}

static enum exit_code run_cancel(const struct command *self, int argc,
				 char **argv)
{
	return call_and_print(self, argc, argv, "snapshot.cancel");
}

static enum exit_code run_list(const struct command *self, int argc,
			       char **argv)
{
	return call_and_print(self, argc, argv, "snapshot.list");
}

static enum exit_code run_metrics(const struct command *self, int argc,
				  char **argv)
{
	return call_and_print(self, argc, argv, "metrics");
}

/* ---- wait ---- */

static void show_progress(const char *method, const json_t *params)
{
	json_int_t total = 0, absent = 0, fault = 0, sweep = 0, pause = 0;
	json_int_t faults = 0, saved;

	if (strcmp(method, "snapshot.progress") ||
	    json_unpack((json_t *)params, "{s:{s:I,s:I,s:I,s:I,s:I},s:I}",
			"pages", "total", &total, "absent", &absent, "by_fault",
			&fault, "by_sweep", &sweep, "in_pause", &pause,
			"faults", &faults))
		return;
	saved = absent + fault + sweep + pause;
	fprintf(stderr,
		"\r%3d %%, %" JSON_INTEGER_FORMAT " pages left, "
		"%" JSON_INTEGER_FORMAT " faults\033[K",
		(int)(saved * 100 / (total ? total : 1)), total - saved,
		faults);
}

/* The exit code that the snapshot ended with. */
static enum exit_code ended_with(const json_t *report)
{
	json_int_t code =
		json_integer_value(json_object_get(report, "exit_code"));
	const char *why = json_string_value(json_object_get(report, "error"));

	if (code <= EXIT_DONE || code > EXIT_CANCELLED)
		return EXIT_DONE;
	return fail((enum exit_code)code, "%s", why ? why : "failed");
}

static enum exit_code run_wait(const struct command *self, int argc,
			       char **argv)
{
	bool terminal = isatty(STDERR_FILENO);
	struct client *c = NULL;
	json_t *result = NULL;
	enum exit_code code;

	if (argc != 2 || !strcmp(argv[1], "--help") || argv[1][0] == '-')
		return argc == 2 && !strcmp(argv[1], "--help")
			       ? usage_help(self)
			       : usage_error(self);
	code = client_open(&c);
	if (code == EXIT_DONE && terminal) {
		code = client_call(c, "snapshot.subscribe",
				   json_pack("{s:s}", "id", argv[1]), &result,
				   NULL);
		json_decref(result);
		result = NULL;
	}
	if (code == EXIT_DONE)
		code = client_call(c, "snapshot.wait",
				   json_pack("{s:s}", "id", argv[1]), &result,
				   terminal ? show_progress : NULL);
	if (terminal)
		fputs("\r\033[K", stderr);
	if (code == EXIT_DONE) {
		print_json(result);
		code = ended_with(result);
	}
	json_decref(result);
	client_close(c);
	return code;
}

const struct command command_status = {
	.name = "status",
	.synopsis = "ID",
	.summary = "print what the daemon knows of a snapshot",
	.run = run_status,
};

const struct command command_cancel = {
	.name = "cancel",
	.synopsis = "ID",
	.summary = "end a snapshot of the daemon",
	.run = run_cancel,
};

const struct command command_wait = {
	.name = "wait",
	.synopsis = "ID",
	.summary = "wait until it has ended; the exit code is the snapshot's",
	.run = run_wait,
};

const struct command command_list = {
	.name = "list",
	.synopsis = "",
	.summary = "print the daemon's snapshots",
	.run = run_list,
};

const struct command command_metrics = {
	.name = "metrics",
	.synopsis = "",
	.summary = "print the daemon's figures for Prometheus",
	.run = run_metrics,
};

// SPDX-License-Identifier: MIT
/* snapd - save the memory of a running process. */
#include <stdio.h>

#include "oneshot.h"
#include "report.h"
#include "server.h"

/* --json gives an object whatever the outcome. */
static void report_usage(enum exit_code code)
{
	const struct job j = {.failure = {.code = code, .text = "wrong usage"}};
	json_t *o = report_json(&j);

	if (o && !json_dumpf(o, stdout, JSON_COMPACT))
		putchar('\n');
	json_decref(o);
}

int main(int argc, char **argv)
{
	struct options o;
	bool done;
	enum exit_code code = options_parse(&o, argc, argv, &done);

	if (code != EXIT_DONE && o.json)
		report_usage(code);
	else if (code == EXIT_DONE && !done)
		code = o.listen ? server_run(&o) : oneshot_run(&o);
	options_free(&o);
	if ((fflush(stdout) || ferror(stdout)) && code == EXIT_DONE)
		code = fail(EXIT_OUTPUT, "cannot write to standard output");
	return code;
}

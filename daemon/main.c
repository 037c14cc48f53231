// SPDX-License-Identifier: MIT
/* snapd - save the memory of a running process. */
#include <stdio.h>

#include "oneshot.h"
#include "report.h"

int main(int argc, char **argv)
{
	struct options o;
	bool done;
	enum exit_code code = options_parse(&o, argc, argv, &done);

	if (code == EXIT_DONE && !done) {
		code = oneshot_run(&o);
	} else if (code != EXIT_DONE && o.json) {
		const struct failure f = {.code = code, .text = "wrong usage"};
		const struct report r = {.failure = &f};

		report_print(&r, stdout);
	}
	options_free(&o);
	if ((fflush(stdout) || ferror(stdout)) && code == EXIT_DONE)
		code = fail(EXIT_OUTPUT, "cannot write to standard output");
	return code;
}

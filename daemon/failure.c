// SPDX-License-Identifier: MIT
/* Why something did not work: one sentence and an exit code. */
#include "failure.h"

#include <stdarg.h>
#include <stdio.h>

#include "libsnap.h"

int failure_set(struct failure *f, enum exit_code code, const char *fmt, ...)
{
	va_list ap;

	if (f->code != EXIT_DONE)
		return -1;
	f->code = code;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return -1;
}

int failure_library(struct failure *f)
{
	return failure_set(f, exit_code_of(snap_error_failure()), "%s",
			   snap_error_message());
}

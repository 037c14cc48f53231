// SPDX-License-Identifier: MIT
/* The thread-local text and class of the last failure. */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char text[ERROR_TEXT_MAX];
static _Thread_local enum snap_failure class;

int error_set(int err, enum snap_failure failure, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	class = failure;
	return err;
}

int error_sys(int err, enum snap_failure failure, const char *fmt, ...)
{
	char reason[128];
	size_t used;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	used = strlen(text);
	snprintf(text + used, sizeof(text) - used, ": %s",
		 strerror_r(-err, reason, sizeof(reason)));
	class = failure;
	return err;
}

int error_nomem(const char *what)
{
	return error_set(-ENOMEM, SNAP_FAILURE_INTERNAL, "out of memory for %s",
			 what);
}

const char *error_text(void)
{
	return text;
}

enum snap_failure error_failure(void)
{
	return class;
}

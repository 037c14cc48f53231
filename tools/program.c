// SPDX-License-Identifier: MIT
/* What a program says on stderr, and the exit code that goes with it. */
#include "program.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "libsnap.h"

#define MESSAGE_MAX 2048

char *printable(char *dst, size_t size, const char *text)
{
	size_t used = 0;

	/* Room for the longest step and the NUL. */
	for (; *text && used + 5 <= size; text++) {
		unsigned char c = (unsigned char)*text;

		if (c >= 0x20 && c < 0x7f)
			dst[used++] = (char)c;
		else
			used += (size_t)sprintf(dst + used, "\\x%02x", c);
	}
	dst[used] = '\0';
	return dst;
}

enum exit_code fail(enum exit_code code, const char *fmt, ...)
{
	char text[MESSAGE_MAX], shown[MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s: %s\n", program_invocation_short_name,
		printable(shown, sizeof(shown), text));
	return code;
}

enum exit_code exit_code_of(enum snap_failure failure)
{
	if (failure > SNAP_FAILURE_NONE && failure <= SNAP_FAILURE_CANCELLED)
		return (enum exit_code)failure;
	return EXIT_FAILED;
}

enum exit_code fail_library(void)
{
	return fail(exit_code_of(snap_error_failure()), "%s",
		    snap_error_message());
}

_Static_assert((int)EXIT_FAILED == (int)SNAP_FAILURE_INTERNAL &&
		       (int)EXIT_USAGE == (int)SNAP_FAILURE_USAGE &&
		       (int)EXIT_REFUSED == (int)SNAP_FAILURE_REFUSED &&
		       (int)EXIT_GONE == (int)SNAP_FAILURE_GONE &&
		       (int)EXIT_OUTPUT == (int)SNAP_FAILURE_OUTPUT &&
		       (int)EXIT_IMAGE == (int)SNAP_FAILURE_IMAGE &&
		       (int)EXIT_CANCELLED == (int)SNAP_FAILURE_CANCELLED,
	       "a failure's class is its exit code");

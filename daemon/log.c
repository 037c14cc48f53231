// SPDX-License-Identifier: MIT
/* Lines on standard error, as journald takes them. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "program.h"

#define LINE_MAX_BYTES 2048

static enum log_level shown = LOG_INFO;

void log_set_level(enum log_level level)
{
	shown = level;
}

int log_parse_level(const char *name, enum log_level *out)
{
	static const char *const names[] = {"error", "info", "debug"};
	unsigned i;

	for (i = 0; i < 3; i++) {
		if (strcmp(names[i], name) != 0)
			continue;
		*out = (enum log_level)i;
		return 0;
	}
	return -1;
}

void log_say(enum log_level level, const char *fmt, ...)
{
	/* Priorities of sd-daemon(3). */
	static const char *const priority[] = {"<3>", "<6>", "<7>"};
	char text[LINE_MAX_BYTES], clean[LINE_MAX_BYTES];
	va_list ap;

	if (level > shown)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%ssnapd: %s\n", priority[level],
		printable(clean, sizeof(clean), text));
}

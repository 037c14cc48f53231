// SPDX-License-Identifier: MIT
/* Collects what is wrong with all regions into one text. */
#include "complaints.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int complain(struct complaints *c, int err, const struct region *r,
	     const char *fmt, ...)
{
	size_t used = strlen(c->text), room = sizeof(c->text) - used;
	va_list ap;
	int n;

	if (!c->err)
		c->err = err;
	n = snprintf(c->text + used, room,
		     "%sregion %s (0x%" PRIx64 "-0x%" PRIx64 ") ",
		     used ? "; " : "", r->name, r->start, region_end(r));
	if (n > 0 && (size_t)n < room) {
		va_start(ap, fmt);
		vsnprintf(c->text + used + n, room - (size_t)n, fmt, ap);
		va_end(ap);
	}
	return err;
}

int complaints_result(const struct complaints *c)
{
	if (!c->err)
		return 0;
	return error_set(c->err, SNAP_FAILURE_REFUSED, "%s", c->text);
}

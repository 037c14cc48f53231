// SPDX-License-Identifier: MIT
/* The object that --json prints at the end. */
#include "report.h"

#include <jansson.h>
#include <stdlib.h>

/* What the library says of @s, or of a snapshot that nothing was done with. */
static json_t *library_report(struct snap *s)
{
	struct snap *empty = NULL;
	json_t *o = NULL;
	char *text;

	if (!s && snap_create(&empty, NULL))
		return NULL;
	text = snap_stats_json(s ? s : empty);
	if (text)
		o = json_loads(text, 0, NULL);
	free(text);
	snap_destroy(empty);
	return o;
}

/* The text may hold a file name that is not UTF-8. */
static json_t *text_json(const char *text)
{
	char shown[2 * FAILURE_TEXT_MAX];
	json_t *o = json_string(text);

	return o ? o : json_string(printable(shown, sizeof(shown), text));
}

static const char *status(enum exit_code code)
{
	switch (code) {
	case EXIT_DONE:
		return "complete";
	case EXIT_CANCELLED:
		return "cancelled";
	default:
		return "failed";
	}
}

int report_print(const struct report *r, FILE *to)
{
	json_t *o = library_report(r->snap);
	int err = -1;

	if (!o)
		return err;
	json_object_set_new(o, "status", json_string(status(r->failure->code)));
	json_object_set_new(o, "error",
			    r->failure->code ? text_json(r->failure->text)
					     : json_null());
	if (r->pause_us)
		json_object_set_new(o, "pause_us",
				    json_integer((json_int_t)r->pause_us));
	if (!json_dumpf(o, to, JSON_COMPACT) && fputc('\n', to) != EOF &&
	    !fflush(to))
		err = 0;
	json_decref(o);
	return err;
}

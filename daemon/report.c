// SPDX-License-Identifier: MIT
/* What is told of a snapshot, as an object. */
#include "report.h"

#include <stdio.h>
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

static const char *status(const struct job *j)
{
	switch (j->failure.code) {
	case EXIT_DONE:
		break;
	case EXIT_CANCELLED:
		return "cancelled";
	default:
		return "failed";
	}
	return j->snap && snap_state(j->snap) < SNAP_STATE_COMPLETE
		       ? "running"
		       : "complete";
}

json_t *report_json(const struct job *j)
{
	json_t *o = library_report(j->snap);

	if (!o)
		return NULL;
	json_object_set_new(o, "status", json_string(status(j)));
	json_object_set_new(o, "error",
			    j->failure.code ? text_json(j->failure.text)
					    : json_null());
	json_object_set_new(o, "exit_code", json_integer(j->failure.code));
	if (j->pause_us)
		json_object_set_new(o, "pause_us",
				    json_integer((json_int_t)j->pause_us));
	return o;
}

void report_id(struct snap *s, char *out, size_t size)
{
	json_t *o = library_report(s);
	const char *id = json_string_value(json_object_get(o, "snapshot_id"));

	snprintf(out, size, "%s", id ? id : "");
	json_decref(o);
}

// SPDX-License-Identifier: MIT
/* Statistics and status as one line of JSON: docs of snapd --json. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "session.h"

static const char *status_name(enum snap_state state)
{
	switch (state) {
	case SNAP_STATE_COMPLETE:
		return "complete";
	case SNAP_STATE_FAILED:
		return "failed";
	case SNAP_STATE_CANCELLED:
		return "cancelled";
	case SNAP_STATE_NEW:
	case SNAP_STATE_PREPARED:
		return "prepared";
	default:
		return "running";
	}
}

static void id_text(char out[37], const uint8_t id[16])
{
	snprintf(out, 37,
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x",
		 id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8],
		 id[9], id[10], id[11], id[12], id[13], id[14], id[15]);
}

static json_t *pages(const struct snap_stats *st)
{
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "total",
			 (json_int_t)st->pages_total, "zero",
			 (json_int_t)st->pages_zero, "absent",
			 (json_int_t)st->pages_absent, "by_fault",
			 (json_int_t)st->pages_by_fault, "by_sweep",
			 (json_int_t)st->pages_by_sweep, "in_pause",
			 (json_int_t)st->pages_in_pause, "audited",
			 (json_int_t)st->pages_audited);
}

static json_t *fault_us(const struct snap_stats *st)
{
	return json_pack("{s:f,s:f,s:f,s:f}", "p50",
			 (double)st->fault_p50_ns / 1e3, "p99",
			 (double)st->fault_p99_ns / 1e3, "p999",
			 (double)st->fault_p999_ns / 1e3, "max",
			 (double)st->fault_max_ns / 1e3);
}

static json_t *pool(const struct snap_stats *st)
{
	return json_pack("{s:f,s:f,s:I}", "sweep_wait_ms",
			 (double)st->pool_wait_sweep_ns / 1e6, "fault_wait_ms",
			 (double)st->pool_wait_fault_ns / 1e6, "waiting_faults",
			 (json_int_t)st->pool_wait_faults);
}

/* File names need not be UTF-8, JSON is: then with a '?' for each byte that is
 * not ASCII. */
static json_t *text_json(char *text)
{
	json_t *o = json_string(text);
	char *at;

	if (o)
		return o;
	for (at = text; *at; at++)
		if (*at & 0x80)
			*at = '?';
	return json_string(text);
}

char *snap_stats_json(struct snap *s)
{
	struct snap_stats st = {.size = sizeof(st)};
	char id[37], text[ERROR_TEXT_MAX], *line = NULL;
	enum snap_state state;
	bool failed;
	json_t *o;

	snap_get_stats(s, &st);
	pthread_mutex_lock(&s->lock);
	state = s->state;
	failed = s->err != 0;
	snprintf(text, sizeof(text), "%s", s->text);
	id_text(id, s->id);
	pthread_mutex_unlock(&s->lock);
	o = json_pack("{s:s,s:o,s:s,s:I,s:I,s:I,s:o,s:I,s:o,s:{s:I,s:I,s:I},"
		      "s:{s:I,s:I},s:o,s:I,s:{s:I,s:I,s:I},s:{s:s}}",
		      "status", status_name(state), "error",
		      failed ? text_json(text) : json_null(), "snapshot_id", id,
		      "pause_us", (json_int_t)(st.pause_ns / 1000), "attach_us",
		      (json_int_t)(st.attach_ns / 1000), "duration_ms",
		      (json_int_t)(st.duration_ns / 1000000), "pages",
		      pages(&st), "faults", (json_int_t)st.faults, "fault_us",
		      fault_us(&st), "unprotect", "ioctls",
		      (json_int_t)st.unprotect_ioctls, "pages",
		      (json_int_t)st.unprotect_pages, "eagain",
		      (json_int_t)st.unprotect_eagain, "bytes", "ram",
		      (json_int_t)st.bytes_ram, "written",
		      (json_int_t)st.bytes_written, "pool", pool(&st),
		      "discards", (json_int_t)st.discards, "prearm", "rounds",
		      (json_int_t)st.prearm_rounds, "faults",
		      (json_int_t)st.early_faults, "pages_in_pause",
		      (json_int_t)st.pages_armed_in_pause, "kernel",
		      "perm_upgrade", "unknown");
	if (!o)
		return NULL;
	line = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return line;
}

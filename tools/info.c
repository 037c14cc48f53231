// SPDX-License-Identifier: MIT
/* snapctl info - what an image says of itself, for people or as JSON. */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libsnap.h"
#include "snapctl.h"

#define NAME_SHOWN (4 * SNAP_NAME_MAX + 5) /* every byte as \xNN */
#define UUID_LENGTH 36
#define TIME_ROOM 64

static void format_uuid(char dst[UUID_LENGTH + 1], const uint8_t id[16])
{
	char *at = dst;
	int i;

	for (i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		at += sprintf(at, "%02x", id[i]);
	}
}

static void format_time(char dst[TIME_ROOM], uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000u);
	struct tm utc = {0};
	size_t used;

	gmtime_r(&seconds, &utc);
	used = strftime(dst, TIME_ROOM, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(dst + used, TIME_ROOM - used, ".%09uZ",
		 (unsigned)(unix_ns % 1000000000u));
}

static const char *compress_name(enum snap_compress compress)
{
	switch (compress) {
	case SNAP_COMPRESS_NONE:
		return "none";
	case SNAP_COMPRESS_ZSTD:
		return "zstd";
	default:
		return "unknown";
	}
}

/* ---- for people ---------------------------------------------------------- */

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static void print_region(const struct snap_image *img, uint32_t i)
{
	struct snap_image_region r = {.size = sizeof(r)};
	char name[NAME_SHOWN];

	if (snap_image_get_region(img, i, &r))
		return;
	printf("region %-6" PRIu32 "%s: %.1f MiB at 0x%" PRIx64 "-0x%" PRIx64
	       ", guest address 0x%" PRIx64 ", pages of %" PRIu32 " KiB\n",
	       i, printable(name, sizeof(name), r.name), mib(r.length), r.start,
	       r.start + r.length, r.guest_addr, r.page_size / 1024);
}

static void print_state(const struct snap_image *img, uint32_t i)
{
	const char *name = "";
	char shown[NAME_SHOWN];
	size_t length = 0;

	if (snap_image_get_device_state(img, i, &name, NULL, &length))
		return;
	printf("state %-7" PRIu32 "%s: %zu bytes\n", i,
	       printable(shown, sizeof(shown), name), length);
}

static void print_text(const struct snap_image *img,
		       const struct snap_image_info *info)
{
	char id[UUID_LENGTH + 1], when[TIME_ROOM];
	uint32_t i;

	format_uuid(id, info->snapshot_id);
	format_time(when, info->created_unix_ns);
	printf("snapshot     %s\n", id);
	printf("taken        %s\n", when);
	printf("format       version %" PRIu32 ", compression %s\n",
	       info->format_version, compress_name(info->compress));
	printf("file         %.1f MiB in %" PRIu64 " frames\n",
	       mib(info->bytes_file), info->frame_count);
	printf("RAM          %.1f MiB: %" PRIu64 " pages, %" PRIu64
	       " with data, %" PRIu64 " zero, %" PRIu64 " absent\n",
	       mib(info->bytes_ram), info->pages_total, info->pages_data,
	       info->pages_zero, info->pages_absent);
	for (i = 0; i < info->region_count; i++)
		print_region(img, i);
	for (i = 0; i < info->device_state_count; i++)
		print_state(img, i);
}

/* ---- for programs -------------------------------------------------------- */

static json_t *number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

/* A string, escaped when it is no UTF-8; NULL when there is no memory. */
static json_t *text(const char *s)
{
	size_t room = 4 * strlen(s) + 5;
	json_t *json = json_string(s);
	char *shown;

	if (json)
		return json;
	shown = malloc(room);
	if (shown)
		json = json_string(printable(shown, room, s));
	free(shown);
	return json;
}

static json_t *json_regions(const struct snap_image *img, uint32_t count)
{
	struct snap_image_region r = {.size = sizeof(r)};
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < count && !snap_image_get_region(img, i, &r); i++)
		json_array_append_new(
			list, json_pack("{s:o, s:o, s:o, s:o, s:o}", "name",
					text(r.name), "start", number(r.start),
					"length", number(r.length),
					"guest_addr", number(r.guest_addr),
					"page_size", number(r.page_size)));
	return list;
}

static json_t *json_states(const struct snap_image *img, uint32_t count)
{
	json_t *list = json_array();
	const char *name;
	size_t length;
	uint32_t i;

	for (i = 0; i < count; i++)
		if (!snap_image_get_device_state(img, i, &name, NULL, &length))
			json_array_append_new(list,
					      json_pack("{s:o, s:o}", "name",
							text(name), "length",
							number(length)));
	return list;
}

/* Of a complete image. */
static json_t *json_info(const struct snap_image *img,
			 const struct snap_image_info *info)
{
	char id[UUID_LENGTH + 1], when[TIME_ROOM];

	format_uuid(id, info->snapshot_id);
	format_time(when, info->created_unix_ns);
	return json_pack(
		"{s:b, s:s, s:s, s:o, s:o, s:s, s:o, s:o, s:o,"
		" s:{s:o, s:o, s:o, s:o}, s:{s:o, s:o}}",
		"complete", 1, "snapshot_id", id, "created", when,
		"created_unix_ns", number(info->created_unix_ns),
		"format_version", number(info->format_version), "compress",
		compress_name(info->compress), "frames",
		number(info->frame_count), "regions",
		json_regions(img, info->region_count), "device_state",
		json_states(img, info->device_state_count), "pages", "total",
		number(info->pages_total), "data", number(info->pages_data),
		"zero", number(info->pages_zero), "absent",
		number(info->pages_absent), "bytes", "ram",
		number(info->bytes_ram), "file", number(info->bytes_file));
}

/* Takes the object. */
static enum exit_code print_json(json_t *json)
{
	char *line = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	if (!line)
		return fail(EXIT_FAILED, "out of memory");
	puts(line);
	free(line);
	return EXIT_DONE;
}

/* ---- the command --------------------------------------------------------- */

static enum exit_code fail_open(bool as_json)
{
	enum exit_code code;
	json_t *json;

	/* Before another call of the library takes the text away. */
	if (as_json && snap_error_failure() == SNAP_FAILURE_IMAGE) {
		json = json_pack("{s:b, s:o}", "complete", 0, "error",
				 text(snap_error_message()));
		code = print_json(json);
		if (code)
			return code;
	}
	return fail_library();
}

static enum exit_code show(const char *path, bool as_json)
{
	struct snap_image_info info = {.size = sizeof(info)};
	enum exit_code code = EXIT_DONE;
	struct snap_image *img;

	if (snap_image_open(&img, path))
		return fail_open(as_json);
	if (snap_image_get_info(img, &info))
		code = fail_library();
	else if (as_json)
		code = print_json(json_info(img, &info));
	else
		print_text(img, &info);
	snap_image_close(img);
	return code;
}

static enum exit_code run(const struct command *c, int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	bool as_json = false;
	int opt;

	while ((opt = getopt_long(argc, argv, "jh", options, NULL)) != -1) {
		if (opt == 'h')
			return usage_help(c);
		if (opt != 'j')
			return usage_error(c);
		as_json = true;
	}
	if (argc - optind != 1)
		return usage_error(c);
	return show(argv[optind], as_json);
}

const struct command command_info = {
	.name = "info",
	.synopsis = "IMAGE [--json]",
	.summary = "Say what an image holds, without reading the RAM in it.",
	.run = run,
};

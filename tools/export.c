// SPDX-License-Identifier: MIT
/* snapctl export - a region's RAM as a sparse file, or one device state. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "libsnap.h"
#include "output.h"
#include "snapctl.h"

/* Pages that the guest wrote to during the snapshot lie scattered over frames;
 * one call of snap_image_read() decodes each frame once.  So the larger, the
 * fewer frames are decoded again. */
#define WINDOW_PAGES ((uint64_t)(32u << 20) / SNAP_PAGE_SIZE)

struct export_options {
	const char *image, *out;
	const char *region; /**< name or index; NULL: the only one */
	const char *state;  /**< name; NULL: RAM is exported */
	bool force;
};

/* The region that is exported, and a part of it in memory. */
struct source {
	struct snap_image *img;
	uint32_t region;
	uint64_t pages;
	uint64_t first, count; /**< pages in @window */
	uint8_t *window;
};

/* Write the pages of the window that have data. */
static enum exit_code write_window(struct output *o, const struct source *s)
{
	enum exit_code code = EXIT_DONE;
	enum snap_page_kind kind;
	uint64_t done, run;

	for (done = 0; !code && done < s->count; done += run) {
		if (snap_image_page_kind(s->img, s->region, s->first + done,
					 &kind, &run))
			return fail_library();
		if (run > s->count - done)
			run = s->count - done;
		if (kind == SNAP_PAGE_DATA)
			code = output_write(o,
					    s->window + done * SNAP_PAGE_SIZE,
					    run * SNAP_PAGE_SIZE,
					    (s->first + done) * SNAP_PAGE_SIZE);
	}
	return code;
}

/* Begin the next window at the next page that has data; none is left when the
 * window is empty.  0 or what the library gave. */
static int next_window(struct source *s)
{
	uint64_t page = s->first + s->count, run;
	enum snap_page_kind kind;
	int err;

	s->count = 0;
	for (; page < s->pages; page += run) {
		err = snap_image_page_kind(s->img, s->region, page, &kind,
					   &run);
		if (err)
			return err;
		if (kind != SNAP_PAGE_DATA)
			continue;
		s->first = page;
		s->count = s->pages - page;
		if (s->count > WINDOW_PAGES)
			s->count = WINDOW_PAGES;
		return snap_image_read(s->img, s->region, page * SNAP_PAGE_SIZE,
				       s->window, s->count * SNAP_PAGE_SIZE);
	}
	return 0;
}

static enum exit_code copy_region(struct output *o, struct source *s)
{
	enum exit_code code = EXIT_DONE;

	s->window = malloc(WINDOW_PAGES * SNAP_PAGE_SIZE);
	if (!s->window)
		return fail(EXIT_FAILED, "out of memory");
	do {
		if (next_window(s))
			code = fail_library();
		else
			code = write_window(o, s);
	} while (!code && s->count);
	free(s->window);
	return code;
}

static enum exit_code name_regions(struct snap_image *img, const char *path,
				   const char *wanted)
{
	struct snap_image_region r = {.size = sizeof(r)};
	char names[512] = "";
	size_t used = 0;
	uint32_t i;

	for (i = 0; !snap_image_get_region(img, i, &r); i++) {
		int n = snprintf(names + used, sizeof(names) - used, "%s%s",
				 i ? ", " : "", r.name);

		if (n < 0 || (size_t)n >= sizeof(names) - used) {
			memcpy(names + sizeof(names) - 4, "...", 4);
			break;
		}
		used += (size_t)n;
	}
	if (wanted)
		return fail(EXIT_USAGE, "%s has no region %s; it has %s", path,
			    wanted, names);
	return fail(EXIT_USAGE,
		    "%s has several regions, choose one with --region: %s",
		    path, names);
}

/* A decimal number and nothing else. */
static bool parse_index(const char *text, uint32_t *index)
{
	unsigned long v;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno || *end || v > UINT32_MAX)
		return false;
	*index = (uint32_t)v;
	return true;
}

/* A name goes before an index, as a region may be called "0". */
static enum exit_code find_region(struct snap_image *img,
				  const struct export_options *x,
				  uint32_t *index)
{
	struct snap_image_region r = {.size = sizeof(r)};
	uint32_t i;

	if (!x->region) {
		*index = 0;
		if (snap_image_get_region(img, 1, &r))
			return EXIT_DONE;
		return name_regions(img, x->image, NULL);
	}
	for (i = 0; !snap_image_get_region(img, i, &r); i++)
		if (strcmp(r.name, x->region) == 0) {
			*index = i;
			return EXIT_DONE;
		}
	if (parse_index(x->region, index) && *index < i)
		return EXIT_DONE;
	return name_regions(img, x->image, x->region);
}

static enum exit_code export_region(struct snap_image *img,
				    const struct export_options *x)
{
	struct snap_image_region r = {.size = sizeof(r)};
	struct source s = {.img = img};
	enum exit_code code;
	struct output o;

	code = find_region(img, x, &s.region);
	if (code)
		return code;
	if (snap_image_get_region(img, s.region, &r))
		return fail_library();
	s.pages = r.length / SNAP_PAGE_SIZE;
	code = output_open(&o, x->out, x->force);
	if (code)
		return code;
	code = output_set_length(&o, r.length);
	if (!code)
		code = copy_region(&o, &s);
	return output_finish(&o, code);
}

static enum exit_code export_state(struct snap_image *img,
				   const struct export_options *x)
{
	enum exit_code code;
	const void *data;
	struct output o;
	size_t length;

	if (snap_image_find_device_state(img, x->state, &data, &length))
		return fail_library();
	code = output_open(&o, x->out, x->force);
	if (code)
		return code;
	return output_finish(&o, output_write(&o, data, length, 0));
}

/* Not even --force replaces the image by what comes out of it. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat sa, sb;

	return !stat(a, &sa) && !stat(b, &sb) && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

static enum exit_code export(const struct export_options *x) {
	struct snap_image *img; enum exit_code code;

	if (is_same_file(x->image,
			 x->out)) return fail(EXIT_USAGE,
					      "%s is the image itself", x->out);
	if (snap_image_open(&img, x->image)) return fail_library();
	code = x->state ? export_state(img, x) : export_region(img, x);
	snap_image_close(img);
	return code;
}

static enum exit_code run(const struct command *c, int argc, char **argv)
{
	static const struct option options[] = {
		{"region", required_argument, NULL, 'r'},
		{"device-state", required_argument, NULL, 'd'},
		{"force", no_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct export_options x = {0};
	int opt;

	while ((opt = getopt_long(argc, argv, "r:d:fh", options, NULL)) != -1) {
		switch (opt) {
		case 'r':
			x.region = optarg;
			break;
		case 'd':
			x.state = optarg;
			break;
		case 'f':
			x.force = true;
			break;
		case 'h':
			return usage_help(c);
		default:
			return usage_error(c);
		}
	}
	if (argc - optind != 2 || (x.region && x.state))
		return usage_error(c);
	x.image = argv[optind];
	x.out = argv[optind + 1];
	return export(&x);
}

const struct command command_export = {
	.name = "export",
	.synopsis = "IMAGE OUT [--region NAME|INDEX | --device-state NAME] "
		    "[--force]",
	.summary = "Write a region's RAM to a sparse file, or a device state "
		   "to a file.",
	.run = run,
};

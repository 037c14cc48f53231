// SPDX-License-Identifier: MIT
/* The command line of snapd. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MASK (UINT64_C(4096) - 1)

#define FAULT_LIMIT_MS 250

enum option_code {
	OPT_PID = 256,
	OPT_OUTPUT,
	OPT_RANGE,
	OPT_QMP,
	OPT_PAUSE_CMD,
	OPT_RESUME_CMD,
	OPT_STATE_CMD,
	OPT_COMPRESS,
	OPT_WORKERS,
	OPT_MAX_BUFFER,
	OPT_BANDWIDTH,
	OPT_FAULT_LIMIT,
	OPT_AUDIT,
	OPT_FORCE,
	OPT_PROGRESS,
	OPT_JSON,
	OPT_LISTEN,
	OPT_LOG_LEVEL,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option options[] = {
	{"pid", required_argument, NULL, OPT_PID},
	{"output", required_argument, NULL, OPT_OUTPUT},
	{"range", required_argument, NULL, OPT_RANGE},
	{"qmp", required_argument, NULL, OPT_QMP},
	{"pause-cmd", required_argument, NULL, OPT_PAUSE_CMD},
	{"resume-cmd", required_argument, NULL, OPT_RESUME_CMD},
	{"state-cmd", required_argument, NULL, OPT_STATE_CMD},
	{"compress", required_argument, NULL, OPT_COMPRESS},
	{"workers", required_argument, NULL, OPT_WORKERS},
	{"max-buffer", required_argument, NULL, OPT_MAX_BUFFER},
	{"bandwidth", required_argument, NULL, OPT_BANDWIDTH},
	{"fault-limit", required_argument, NULL, OPT_FAULT_LIMIT},
	{"audit", required_argument, NULL, OPT_AUDIT},
	{"force", required_argument, NULL, OPT_FORCE},
	{"progress", required_argument, NULL, OPT_PROGRESS},
	{"listen", required_argument, NULL, OPT_LISTEN},
	{"log-level", required_argument, NULL, OPT_LOG_LEVEL},
	{"json", no_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{0},
};

static const char help[] =
	"usage: snapd --pid PID --output FILE [OPTION]...\n"
	"       snapd --listen SOCKET [--log-level LEVEL]\n"
	"Save the memory of a running process, while it runs on.\n"
	"\n"
	"  --pid PID            the process\n"
	"  --output FILE        the image; must not exist; - is standard "
	"output\n"
	"  --range START-END    save these addresses (0x..., END exclusive, "
	"whole\n"
	"                       pages) and not what is found by itself; may "
	"repeat\n"
	"  --qmp SOCKET         it is QEMU: stop and continue it over QMP and "
	"put\n"
	"                       its device state into the image\n"
	"  --pause-cmd COMMAND  for other machines: run in the pause, by "
	"/bin/sh with\n"
	"  --state-cmd COMMAND  SNAPD_PID set; what the second writes is the "
	"device\n"
	"  --resume-cmd COMMAND state; the third is run whatever happens\n"
	"  --compress none | zstd[:LEVEL]\n"
	"  --workers N          threads that compress (one a CPU, 8 at most)\n"
	"  --max-buffer SIZE    memory for copies (64M)\n"
	"  --bandwidth SIZE     bytes a second that may be written (no limit)\n"
	"  --fault-limit MS     release the process and fail when a write of "
	"it\n"
	"                       waited so long (250); 0 is for ever\n"
	"  --audit PERCENT      checksum some pages in the pause and compare\n"
	"  --force NAME         go on in spite of vfio, io_uring, shared, ksm "
	"or\n"
	"                       output; may repeat\n"
	"  --progress auto | plain | none\n"
	"  --json               one object on standard output at the end (on\n"
	"                       standard error with --output -)\n"
	"\n"
	"  --listen SOCKET      take requests at this Unix socket: see "
	"snapd(8)\n"
	"  --log-level error | info | debug\n"
	"\n"
	"SIZE takes K, M, G.  Exit codes: 0 done, 1 failed, 2 wrong usage,\n"
	"3 refused, 4 the process went away, 5 the output failed, 7 "
	"cancelled.\n";

static bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *out <= max;
}

/* 1024-based: 64M; 0 is not a size. */
static bool parse_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	unsigned shift = 0;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno)
		return false;
	if (*end) {
		unit = strchr(units, *end);
		if (!unit || (end[1] && strcmp(end + 1, "iB") != 0))
			return false;
		shift = 10 * (unsigned)(unit - units + 1);
	}
	if (!*out || *out > UINT64_MAX >> shift)
		return false;
	*out <<= shift;
	return true;
}

static bool parse_address(const char *text, const char **end, uint64_t *out)
{
	char *stop;

	if (strncmp(text, "0x", 2) != 0)
		return false;
	errno = 0;
	*out = strtoull(text, &stop, 16);
	*end = stop;
	return stop != text + 2 && !errno && !(*out & PAGE_MASK);
}

static bool parse_range(const char *text, struct range *r)
{
	const char *at;

	return parse_address(text, &at, &r->start) && *at == '-' &&
	       parse_address(at + 1, &at, &r->end) && !*at && r->start < r->end;
}

static int wrong(struct failure *f, const char *option, const char *value,
		 const char *what)
{
	return failure_set(f, EXIT_USAGE, "%s %s: give %s", option, value,
			   what);
}

static int add_range(struct options *o, const char *text, struct failure *f)
{
	struct range r, *more;

	if (!parse_range(text, &r))
		return wrong(f, "range", text,
			     "0xSTART-0xEND, whole pages of 4096 bytes, END "
			     "exclusive");
	more = realloc(o->ranges, (o->range_count + 1) * sizeof(*more));
	if (!more)
		return failure_set(f, EXIT_FAILED, "no memory for the ranges");
	o->ranges = more;
	o->ranges[o->range_count++] = r;
	return 0;
}

static bool parse_compress(struct options *o, const char *text)
{
	uint64_t level;

	if (!strcmp(text, "none")) {
		o->compress = SNAP_COMPRESS_NONE;
		return true;
	}
	if (strncmp(text, "zstd", 4) != 0)
		return false;
	o->compress = SNAP_COMPRESS_ZSTD;
	if (!text[4])
		return true;
	if (text[4] != ':' || !parse_number(text + 5, 19, &level) || !level)
		return false;
	o->level = (int)level;
	return true;
}

static bool parse_hazard(struct options *o, const char *text)
{
	static const char *const names[] = {"vfio", "io_uring", "shared", "ksm",
					    "output"};
	unsigned i;

	for (i = 0; i < 5; i++) {
		if (strcmp(names[i], text) != 0)
			continue;
		o->allow |= 1u << i;
		return true;
	}
	return false;
}

static bool parse_progress(struct options *o, const char *text)
{
	static const char *const names[] = {"auto", "plain", "none"};
	unsigned i;

	for (i = 0; i < 3; i++) {
		if (strcmp(names[i], text) != 0)
			continue;
		o->progress = (enum progress_kind)i;
		return true;
	}
	return false;
}

static int parse_limit(struct options *o, int code, const char *text,
		       struct failure *f)
{
	uint64_t n;

	switch (code) {
	case OPT_WORKERS:
		if (!parse_number(text, 64, &n) || !n)
			return wrong(f, "workers", text,
				     "a number from 1 to 64");
		o->workers = (unsigned)n;
		return 0;
	case OPT_FAULT_LIMIT:
		if (!parse_number(text, 3600000, &n))
			return wrong(f, "fault-limit", text,
				     "milliseconds, or 0 for no limit");
		o->fault_limit_ms = (unsigned)n;
		return 0;
	case OPT_AUDIT:
		if (!parse_number(text, 100, &n))
			return wrong(f, "audit", text, "0 to 100 percent");
		o->audit = (unsigned)n;
		return 0;
	case OPT_MAX_BUFFER:
		return parse_size(text, &o->max_buffer)
			       ? 0
			       : wrong(f, "max-buffer", text,
				       "a size such as 64M");
	default:
		return parse_size(text, &o->bandwidth)
			       ? 0
			       : wrong(f, "bandwidth", text,
				       "bytes a second such as 200M");
	}
}

static int parse_one(struct options *o, int code, const char *text,
		     struct failure *f)
{
	uint64_t n;

	switch (code) {
	case OPT_PID:
		if (!parse_number(text, INT_MAX, &n) || !n)
			return wrong(f, "pid", text, "the number of a process");
		o->pid = (int)n;
		return 0;
	case OPT_OUTPUT:
		o->output = text;
		return 0;
	case OPT_RANGE:
		return add_range(o, text, f);
	case OPT_QMP:
		o->qmp = text;
		return 0;
	case OPT_FORCE:
		return parse_hazard(o, text)
			       ? 0
			       : wrong(f, "force", text,
				       "vfio, io_uring, shared, ksm or output");
	case OPT_PAUSE_CMD:
		o->pause_cmd = text;
		return 0;
	case OPT_RESUME_CMD:
		o->resume_cmd = text;
		return 0;
	case OPT_STATE_CMD:
		o->state_cmd = text;
		return 0;
	case OPT_LISTEN:
		o->listen = text;
		return 0;
	case OPT_LOG_LEVEL:
		return log_parse_level(text, &o->log_level)
			       ? wrong(f, "log-level", text,
				       "error, info or debug")
			       : 0;
	case OPT_COMPRESS:
		return parse_compress(o, text)
			       ? 0
			       : wrong(f, "compress", text,
				       "none, zstd or zstd:1 to zstd:19");
	case OPT_PROGRESS:
		return parse_progress(o, text) ? 0
					       : wrong(f, "progress", text,
						       "auto, plain or none");
	default:
		return parse_limit(o, code, text, f);
	}
}

static enum exit_code check(const struct options *o, int operands)
{
	if (operands)
		return fail(EXIT_USAGE, "only options are taken; snapd --help "
					"lists them");
	if (o->listen)
		return o->pid || o->output
			       ? fail(EXIT_USAGE, "--listen takes neither "
						  "--pid nor --output")
			       : EXIT_DONE;
	if (o->qmp && (o->pause_cmd || o->resume_cmd || o->state_cmd))
		return fail(EXIT_USAGE, "--qmp pauses and resumes QEMU by "
					"itself: leave the commands out");
	if (!o->pause_cmd != !o->resume_cmd)
		return fail(EXIT_USAGE, "--pause-cmd and --resume-cmd go "
					"together");
	if (!o->pid)
		return fail(EXIT_USAGE, "--pid is missing; snapd --help lists "
					"the options");
	if (!o->output || !*o->output)
		return fail(EXIT_USAGE, "--output is missing; - would be "
					"standard output");
	return EXIT_DONE;
}

int options_set(struct options *o, const char *name, const char *value,
		struct failure *f)
{
	const struct option *at;

	for (at = options; at->name; at++)
		if (at->has_arg && !strcmp(at->name, name))
			return parse_one(o, at->val, value, f);
	return failure_set(f, EXIT_USAGE, "there is no option %s", name);
}

void options_init(struct options *o)
{
	*o = (struct options){.fault_limit_ms = FAULT_LIMIT_MS,
			      .log_level = LOG_INFO};
}

enum exit_code options_parse(struct options *o, int argc, char **argv,
			     bool *done)
{
	struct failure f = {0};
	bool said = false;
	int c;

	options_init(o);
	*done = false;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == OPT_JSON) {
			o->json = true;
		} else if (c == OPT_HELP || c == OPT_VERSION) {
			*done = true;
			if (c == OPT_HELP)
				fputs(help, stdout);
			else
				printf("snapd %s\n", snap_version());
			return EXIT_DONE;
		} else if (c == '?') {
			said = true; /* by getopt */
		} else {
			parse_one(o, c, optarg, &f);
		}
	}
	if (said)
		return EXIT_USAGE;
	return f.code ? fail(f.code, "--%s", f.text) : check(o, argc - optind);
}

void options_free(struct options *o)
{
	free(o->ranges);
	o->ranges = NULL;
}

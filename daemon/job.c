// SPDX-License-Identifier: MIT
/* One snapshot of one process, up to its snapshot point. */
#include "job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hook.h"

#define LOOKS_MAX 5u
#define LOOK_NAP_US 10000u

static uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- what is saved ---- */

static int create(struct job *j)
{
	const struct options *o = j->options;
	struct snap_options opts = {
		.size = sizeof(opts),
		.output = o->output,
		.compress = o->compress,
		.compress_level = o->level,
		.workers = o->workers,
		.max_buffer = o->max_buffer,
		.bandwidth = o->bandwidth,
		.pid = o->pid,
		.allow = j->options->allow,
		.audit_percent = j->options->audit,
		.fault_limit_ms = o->fault_limit_ms,
	};

	if (!strcmp(o->output, "-")) {
		opts.output = NULL;
		opts.output_fd = STDOUT_FILENO;
		if (isatty(STDOUT_FILENO))
			return failure_set(&j->failure, EXIT_USAGE,
					   "--output -: an image is not for a "
					   "terminal");
	}
	return snap_create(&j->snap, &opts) ? failure_library(&j->failure) : 0;
}

static int add_ranges(struct job *j)
{
	size_t i;

	for (i = 0; i < j->options->range_count; i++) {
		const struct range *r = &j->options->ranges[i];
		const struct snap_region region = {
			.size = sizeof(region),
			.addr = (void *)(uintptr_t)r->start,
			.length = r->end - r->start,
		};

		if (snap_add_region(j->snap, &region))
			return failure_library(&j->failure);
	}
	return 0;
}

static void tell_picks(struct job *j)
{
	struct snap_region_info info = {.size = sizeof(info)};
	size_t i;

	for (i = 0; !snap_get_region(j->snap, i, &info); i++)
		fprintf(stderr,
			"snapd: %s: 0x%" PRIx64 "-0x%" PRIx64 ", %" PRIu64
			" KiB: %s\n",
			info.name, info.start, info.start + info.length,
			info.length / 1024, info.why);
}

/* Main memory where QEMU says it is; 1 when it does not. */
static int add_main_memory(struct job *j)
{
	struct snap_region region = {.size = sizeof(region), .name = "ram"};
	uint64_t start, length;

	if (qmp_guest_ram(j->qmp, &start, &length, &j->failure))
		return j->failure.code ? -1 : 1;
	region.addr = (void *)(uintptr_t)start;
	region.length = length;
	if (snap_add_region(j->snap, &region))
		return failure_library(&j->failure);
	if (j->options->progress != PROGRESS_NONE)
		fprintf(stderr,
			"snapd: ram: 0x%" PRIx64 "-0x%" PRIx64 ", %" PRIu64
			" KiB: main memory, as QEMU says\n",
			start, start + length, length / 1024);
	return 0;
}

static int choose(struct job *j)
{
	int err = 1;

	if (j->options->range_count)
		return add_ranges(j);
	if (j->qmp)
		err = add_main_memory(j);
	if (err <= 0)
		return err;
	if (snap_add_ram(j->snap))
		return failure_library(&j->failure);
	if (j->options->progress != PROGRESS_NONE)
		tell_picks(j);
	return 0;
}

/* ---- the pause ---- */

static int pause_guest(struct job *j)
{
	if (j->qmp)
		return qmp_stop(j->qmp, &j->failure);
	if (!j->options->pause_cmd)
		return 0;
	return hook_run(j->options->pause_cmd, j->options->pid, NULL, NULL,
			&j->failure);
}

/* Whatever happened before.  A guest that does not go on is worse than an image
 * that is not made. */
static int resume_guest(struct job *j)
{
	if (j->qmp)
		return qmp_cont(j->qmp, &j->failure);
	if (!j->options->resume_cmd)
		return 0;
	return hook_run(j->options->resume_cmd, j->options->pid, NULL, NULL,
			&j->failure);
}

static int add_devices(struct job *j)
{
	void *data = NULL;
	size_t len = 0;
	int err;

	if (j->qmp)
		err = qmp_device_state(j->qmp, &data, &len, &j->failure);
	else if (j->options->state_cmd)
		err = hook_run(j->options->state_cmd, j->options->pid, &data,
			       &len, &j->failure);
	else
		return 0;
	if (err)
		return -1;
	err = snap_add_device_state(j->snap, j->qmp ? "qemu" : "state", data,
				    len);
	free(data);
	return err ? failure_library(&j->failure) : 0;
}

int job_begin(struct job *j)
{
	bool outside = j->qmp || j->options->pause_cmd;
	uint64_t start = now_us();
	int err = pause_guest(j) || add_devices(j) ? -1 : 0;

	if (!err && snap_begin(j->snap))
		err = failure_library(&j->failure);
	if (resume_guest(j))
		err = -1;
	if (outside)
		j->pause_us = now_us() - start;
	return err;
}

/* A process that starts, or is busy with its mappings, changes them between the
 * look and the registration: then they are looked at anew. */
static bool has_changed(const struct job *j, int err)
{
	return !j->options->range_count && (err == -EFAULT || err == -EACCES);
}

int job_prepare(struct job *j)
{
	unsigned tries = 0;
	int err;

	if (j->options->qmp && qmp_open(&j->qmp, j->options->qmp, &j->failure))
		return -1;
	do {
		snap_destroy(j->snap);
		j->snap = NULL;
		usleep(tries * LOOK_NAP_US);
		if (create(j) || choose(j))
			return -1;
		err = snap_prepare(j->snap);
	} while (err && has_changed(j, err) && ++tries < LOOKS_MAX);
	if (!err)
		err = snap_prearm(j->snap);
	return err ? failure_library(&j->failure) : 0;
}

void job_close(struct job *j)
{
	snap_destroy(j->snap);
	qmp_close(j->qmp);
	j->snap = NULL;
	j->qmp = NULL;
}

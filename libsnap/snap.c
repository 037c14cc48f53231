// SPDX-License-Identifier: MIT
/* The public entry points. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pick.h"
#include "protect.h"
#include "session.h"
#include "sys.h"

#define STRING(x) #x
#define VERSION_TEXT(a, b, c) STRING(a) "." STRING(b) "." STRING(c)

#define BUFFER_DEFAULT (64 * MIB)
#define BUFFER_MIN (16 * MIB)
#define BUFFER_MAX (1 * GIB)
#define WORKERS_LIMIT 64u
#define STATES_BYTES_MAX (1 * GIB)
#define STATES_MAX 4096u

#define HAZARDS_KNOWN                                                          \
	(SNAP_HAZARD_VFIO | SNAP_HAZARD_IO_URING | SNAP_HAZARD_SHARED |        \
	 SNAP_HAZARD_KSM | SNAP_HAZARD_OUTPUT)
#define FLAGS_KNOWN                                                            \
	(SNAP_OVERWRITE | SNAP_NO_PREALLOCATE | SNAP_NO_IO_URING |             \
	 SNAP_NO_DIRECT)

const char *snap_error_message(void)
{
	return error_text();
}

enum snap_failure snap_error_failure(void)
{
	return error_failure();
}

const char *snap_version(void)
{
	return VERSION_TEXT(SNAP_VERSION_MAJOR, SNAP_VERSION_MINOR,
			    SNAP_VERSION_PATCH);
}

/* ---- options ------------------------------------------------------------- */

/* Copy a sized struct: what the caller's is shorter is zero, what it is longer
 * must be zero. */
static int copy_sized(void *dst, size_t ours, const void *src, size_t theirs)
{
	const uint8_t *bytes = src;
	size_t i;

	if (theirs < sizeof(size_t))
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "a struct's size field is not set");
	for (i = ours; i < theirs; i++)
		if (bytes[i])
			return error_set(-E2BIG, SNAP_FAILURE_USAGE,
					 "a struct is from a newer libsnap and "
					 "uses what %s does not know",
					 snap_version());
	memset(dst, 0, ours);
	memcpy(dst, src, ours < theirs ? ours : theirs);
	return 0;
}

static int bad_option(const char *what)
{
	return error_set(-EINVAL, SNAP_FAILURE_USAGE, "%s", what);
}

static int check_options(const struct snap_options *o)
{
	if (o->compress > SNAP_COMPRESS_ZSTD)
		return bad_option("compress is none of enum snap_compress");
	if (o->compress_level > 19 || o->compress_level < -100)
		return bad_option("compress_level is not in -100..19");
	if (o->workers > WORKERS_LIMIT)
		return bad_option("workers is more than 64");
	if (o->max_buffer < BUFFER_MIN || o->max_buffer > BUFFER_MAX)
		return bad_option("max_buffer is not in 16 MiB..1 GiB");
	if (o->allow & ~(unsigned)HAZARDS_KNOWN)
		return bad_option("allow has unknown bits");
	if (o->audit_percent > 100)
		return bad_option("audit_percent is not in 0..100");
	if (o->pid < 0)
		return bad_option("pid is negative");
	if (o->output_fd < 0)
		return bad_option("output_fd is negative");
	if (o->output && !*o->output)
		return bad_option("output is an empty path");
	if (o->flags & ~(unsigned)FLAGS_KNOWN)
		return bad_option("flags has unknown bits");
	return 0;
}

static int read_options(struct snap_options *to,
			const struct snap_options *from)
{
	struct snap_options none = {.size = sizeof(none)};
	int err;

	if (!from)
		from = &none;
	err = copy_sized(to, sizeof(*to), from, from->size);
	if (err)
		return err;
	if (!to->max_buffer)
		to->max_buffer = BUFFER_DEFAULT;
	if (to->compress == SNAP_COMPRESS_DEFAULT)
		to->compress = SNAP_COMPRESS_NONE;
	if (!to->compress_level)
		to->compress_level = 1;
	err = check_options(to);
	if (err || !to->output)
		return err;
	to->output = strdup(to->output);
	return to->output ? 0 : error_nomem("the output's path");
}

static void init_locks(struct snap *s)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->guest.unprotect_lock, NULL);
}

int snap_create(struct snap **out, const struct snap_options *opts)
{
	struct snap *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return error_nomem("a snapshot");
	s->guest.uffd = s->guest.fdinfo = -1;
	s->guest.pidfd = s->guest.mem_fd = -1;
	s->guest.residency.fd = s->guest.target.mem_fd = -1;
	s->guest.all_saved_fd = s->guest.stop_fd = -1;
	err = read_options(&s->opts, opts);
	if (err) {
		free(s);
		return err;
	}
	s->guest.pid = s->opts.pid;
	s->stream_flags = sys_getfl(s->opts.output_fd);
	s->notify_fd = sys_eventfd(0);
	if (s->notify_fd < 0) {
		err = error_sys(s->notify_fd, SNAP_FAILURE_INTERNAL, "eventfd");
		free((char *)s->opts.output);
		free(s);
		return err;
	}
	init_locks(s);
	*out = s;
	return 0;
}

void snap_destroy(struct snap *s)
{
	if (s)
		session_destroy(s);
}

/* ---- what is saved ------------------------------------------------------- */

int snap_add_region(struct snap *s, const struct snap_region *region)
{
	struct snap_region spec;
	int err = copy_sized(&spec, sizeof(spec), region, region->size);

	if (err)
		return err;
	if (session_state(s) != SNAP_STATE_NEW)
		return error_set(
			-EBUSY, SNAP_FAILURE_USAGE,
			"a region must be added before snap_prepare()");
	return region_add(&s->guest.regions, &spec);
}

static int check_state(const struct snap *s, const char *name, size_t length)
{
	uint32_t i;

	if (!name || !*name || strlen(name) > SNAP_NAME_MAX)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "a device state's name has 1 to %d bytes",
				 SNAP_NAME_MAX);
	for (i = 0; i < s->state_count; i++)
		if (!strcmp(s->states[i].name, name))
			return error_set(-EEXIST, SNAP_FAILURE_USAGE,
					 "device state %s is there already",
					 name);
	if (length > STATES_BYTES_MAX - s->state_bytes ||
	    s->state_count == STATES_MAX)
		return error_set(-E2BIG, SNAP_FAILURE_USAGE,
				 "device state %s is too big for the rest of "
				 "the 1 GiB and %u pieces that device states "
				 "may take",
				 name, STATES_MAX);
	return 0;
}

int snap_add_ram(struct snap *s)
{
	if (!s->opts.pid)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "only another process's memory is found by "
				 "itself: set pid, or add regions");
	if (session_state(s) != SNAP_STATE_NEW)
		return error_set(-EBUSY, SNAP_FAILURE_USAGE,
				 "memory cannot be added after "
				 "snap_prepare()");
	return pick_ram(&s->guest.regions, s->opts.pid);
}

int snap_get_region(const struct snap *s, size_t index,
		    struct snap_region_info *info)
{
	const struct region_table *t = &s->guest.regions;
	struct snap_region_info full = {.size = info->size};
	const struct region *r;

	if (!info->size)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "snap_region_info: size is 0");
	if (index >= t->count)
		return error_set(-ENOENT, SNAP_FAILURE_USAGE,
				 "there are %zu regions, and no number %zu",
				 t->count, index);
	r = t->by_index[index];
	snprintf(full.name, sizeof(full.name), "%s", r->name);
	full.start = r->start;
	full.length = r->length;
	snprintf(full.why, sizeof(full.why), "%s", r->why ? r->why : "");
	memcpy(info, &full, min_u64(info->size, sizeof(full)));
	return 0;
}

int snap_add_device_state(struct snap *s, const char *name, const void *data,
			  size_t length)
{
	enum snap_state state = session_state(s);
	struct device_state *more, *d;
	int err = check_state(s, name, length);

	if (err)
		return err;
	if (state != SNAP_STATE_NEW && state != SNAP_STATE_PREPARED)
		return error_set(-EBUSY, SNAP_FAILURE_USAGE,
				 "device state %s comes after snap_begin()",
				 name);
	more = realloc(s->states, (s->state_count + 1) * sizeof(*more));
	if (!more)
		return error_nomem("a device state");
	s->states = more;
	d = &more[s->state_count];
	memset(d, 0, sizeof(*d));
	d->data = malloc(length ? length : 1);
	if (!d->data)
		return error_nomem("a device state");
	if (length)
		memcpy(d->data, data, length);
	strcpy(d->name, name);
	d->length = length;
	s->state_bytes += length;
	s->state_count++;
	return 0;
}

int snap_prepare(struct snap *s)
{
	return session_prepare(s);
}

int snap_prearm(struct snap *s)
{
	return session_prearm(s);
}

int snap_begin(struct snap *s)
{
	return session_begin(s);
}

/* ---- while it runs ------------------------------------------------------- */

enum snap_state snap_state(const struct snap *s)
{
	return session_state((struct snap *)s);
}

int snap_fd(const struct snap *s)
{
	return s->notify_fd;
}

int snap_process(struct snap *s)
{
	uint64_t count;

	sys_read(s->notify_fd, &count, sizeof(count));
	return snap_status(s);
}

/* s->lock is held. */
static int status_locked(struct snap *s)
{
	switch (s->state) {
	case SNAP_STATE_COMPLETE:
		return 0;
	case SNAP_STATE_FAILED:
	case SNAP_STATE_CANCELLED:
		return error_set(s->err, s->failure, "%s", s->text);
	default:
		return -EINPROGRESS;
	}
}

int snap_status(struct snap *s)
{
	int err;

	pthread_mutex_lock(&s->lock);
	err = status_locked(s);
	pthread_mutex_unlock(&s->lock);
	return err;
}

static struct timespec deadline_in(int ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

int snap_wait(struct snap *s, int timeout_ms)
{
	struct timespec deadline = deadline_in(timeout_ms < 0 ? 0 : timeout_ms);
	int err, timed_out = 0;

	pthread_mutex_lock(&s->lock);
	while (s->state < SNAP_STATE_COMPLETE && !timed_out) {
		if (timeout_ms < 0)
			pthread_cond_wait(&s->changed, &s->lock);
		else
			timed_out = pthread_cond_timedwait(&s->changed,
							   &s->lock, &deadline);
	}
	err = status_locked(s);
	pthread_mutex_unlock(&s->lock);
	return err;
}

void snap_cancel(struct snap *s)
{
	error_set(-ECANCELED, SNAP_FAILURE_CANCELLED, "cancelled");
	session_fail(s, -ECANCELED);
	session_end_new(s);
}

/* ---- statistics ---------------------------------------------------------- */

static void fill_engine(struct snap_stats *to, const struct guest *g)
{
	const struct stats *s = &g->stats;
	size_t i;

	for (i = 0; i < g->regions.count; i++)
		to->bytes_ram += g->regions.by_index[i]->length;
	to->pages_total = to->bytes_ram / PAGE_BYTES;
	to->pages_by_fault = stats_get(&s->pages_by_fault);
	to->pages_by_sweep = stats_get(&s->pages_by_sweep);
	to->pages_in_pause = stats_get(&s->pages_in_pause);
	to->pages_absent = stats_get(&s->pages_absent);
	to->attach_ns = g->attach_ns;
	to->fault_sum_ns = stats_get(&s->fault_ns.sum);
	to->early_faults = stats_get(&s->early_faults);
	to->prearm_rounds = stats_get(&s->prearm_rounds);
	to->pages_armed_in_pause = stats_get(&s->pages_armed_in_pause);
	to->pages_audited = stats_get(&s->pages_audited);
	to->faults = stats_get(&s->faults);
	to->fault_p50_ns = histogram_quantile(&s->fault_ns, 0.5);
	to->fault_p99_ns = histogram_quantile(&s->fault_ns, 0.99);
	to->fault_p999_ns = histogram_quantile(&s->fault_ns, 0.999);
	to->fault_max_ns = stats_get(&s->fault_ns.max);
	to->protect_ioctls = stats_get(&s->protect_ioctls);
	to->unprotect_ioctls = stats_get(&s->unprotect_ioctls);
	to->unprotect_pages = stats_get(&s->unprotect_pages);
	to->unprotect_eagain = stats_get(&s->unprotect_eagain);
	to->discards = stats_get(&s->discards);
	to->syscalls = stats_get(&s->syscalls);
}

int snap_get_stats(struct snap *s, struct snap_stats *st)
{
	struct snap_stats all = {0};
	size_t room = st->size;

	if (room < sizeof(size_t))
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "snap_stats.size is not set");
	fill_engine(&all, &s->guest);
	pthread_mutex_lock(&s->lock);
	session_collect(s);
	all.pages_zero = s->zero_pages;
	all.bytes_written = s->bytes_written;
	all.write_calls = s->write_calls;
	all.syscalls += s->write_syscalls;
	all.pool_wait_sweep_ns = s->waits.sweep_ns;
	all.pool_wait_fault_ns = s->waits.fault_ns;
	all.pool_wait_faults = s->waits.faults;
	all.prepare_ns = s->prepare_ns;
	all.pause_ns = s->pause_ns;
	if (s->begin_ns)
		all.duration_ns =
			(s->end_ns ? s->end_ns : now_ns()) - s->begin_ns;
	pthread_mutex_unlock(&s->lock);
	all.size = room;
	memcpy(st, &all, min_u64(room, sizeof(all)));
	return 0;
}

void snap_count_faults(struct snap *s, const uint64_t *bounds_ns,
		       uint64_t *counts, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		counts[i] =
			histogram_below(&s->guest.stats.fault_ns, bounds_ns[i]);
}

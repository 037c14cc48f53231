// SPDX-License-Identifier: MIT
/*
 * No memory: a budget of allocations, raised from 0 until everything works.
 *
 * How it works.  The linker gives the library our malloc(), which counts down
 * the budget and then has no memory, and remembers what it gave, so that what
 * was not freed is known at the end of each life.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/scene.h"

#define MB ((size_t)1 << 20)
#define GIVEN_MAX 65536u
#define BUDGET_MAX 20000

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
int __real_posix_memalign(void **out, size_t align, size_t n);
char *__real_strdup(const char *s);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_posix_memalign(void **out, size_t align, size_t n);
char *__wrap_strdup(const char *s);
void __wrap_free(void *p);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool armed;
static long budget;
static unsigned live;
static void *given[GIVEN_MAX];

static bool allowed(void)
{
	bool ok;

	pthread_mutex_lock(&lock);
	ok = !armed || budget > 0;
	budget -= armed && ok;
	pthread_mutex_unlock(&lock);
	return ok;
}

static unsigned slot_of(const void *p)
{
	return (unsigned)((uintptr_t)p >> 4) * 2654435761u % GIVEN_MAX;
}

static void *remember(void *p)
{
	unsigned i = slot_of(p);

	pthread_mutex_lock(&lock);
	for (unsigned n = 0; armed && p && n < GIVEN_MAX; n++, i++) {
		if (given[i % GIVEN_MAX])
			continue;
		given[i % GIVEN_MAX] = p;
		live++;
		break;
	}
	pthread_mutex_unlock(&lock);
	return p;
}

/* Only a few hundred live at a time: a whole probe is cheap enough. */
static void forget(const void *p)
{
	unsigned i = slot_of(p);

	pthread_mutex_lock(&lock);
	for (unsigned n = 0; live && p && n < 4096; n++, i++) {
		if (given[i % GIVEN_MAX] != p)
			continue;
		given[i % GIVEN_MAX] = NULL;
		live--;
		break;
	}
	pthread_mutex_unlock(&lock);
}

void *__wrap_malloc(size_t n)
{
	return allowed() ? remember(__real_malloc(n)) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
	return allowed() ? remember(__real_calloc(n, size)) : NULL;
}

void *__wrap_realloc(void *p, size_t n)
{
	void *q;

	if (!allowed())
		return NULL;
	forget(p);
	q = __real_realloc(p, n);
	return remember(q ? q : p) == q ? q : NULL;
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
	return allowed() ? remember(__real_aligned_alloc(align, n)) : NULL;
}

int __wrap_posix_memalign(void **out, size_t align, size_t n)
{
	int err = allowed() ? __real_posix_memalign(out, align, n) : ENOMEM;

	if (!err)
		remember(*out);
	return err;
}

char *__wrap_strdup(const char *s)
{
	return allowed() ? remember(__real_strdup(s)) : NULL;
}

void __wrap_free(void *p)
{
	forget(p);
	__real_free(p);
}

static void arm(long n)
{
	pthread_mutex_lock(&lock);
	memset(given, 0, sizeof(given));
	live = 0;
	budget = n;
	armed = true;
	pthread_mutex_unlock(&lock);
}

static void disarm(void)
{
	pthread_mutex_lock(&lock);
	armed = false;
	pthread_mutex_unlock(&lock);
}

/* ---- a whole life ---- */

struct life {
	struct scene *sc;
	char path[SCENE_PATH_MAX];
	enum snap_compress compress;
	uint8_t *to; /* restored into */
};

static int add_all(struct snap *s, const struct life *l)
{
	struct snap_region r = {.size = sizeof(r),
				.addr = l->sc->ram.addr,
				.length = l->sc->ram.len};
	int err = snap_add_region(s, &r);

	return err ? err : snap_add_device_state(s, "cpu", "regs", 4);
}

static struct outcome save(const struct life *l)
{
	struct snap_options opts = {.size = sizeof(opts),
				    .output = l->path,
				    .compress = l->compress,
				    .max_buffer = 16 * MB};
	struct outcome o;
	struct snap *s;
	int err = snap_create(&s, &opts);

	if (err)
		return outcome_of(err);
	err = add_all(s, l);
	if (!err)
		err = snap_prepare(s);
	if (!err)
		err = snap_begin(s);
	if (!err)
		err = snap_wait(s, 20000);
	o = outcome_of(err); /* the next call has a text of its own */
	snap_destroy(s);
	return o;
}

static struct outcome load(const struct life *l)
{
	struct snap_image *img;
	struct outcome o;
	uint8_t buf[64];
	int err = snap_image_verify(l->path);

	if (!err)
		err = snap_image_open(&img, l->path);
	if (err)
		return outcome_of(err);
	err = snap_image_read(img, 0, 100, buf, sizeof(buf));
	if (!err)
		err = snap_restore(img, 0, l->to, l->sc->ram.len, 2);
	o = outcome_of(err);
	snap_image_close(img);
	return o;
}

static void check_clean(struct scene *sc)
{
	struct proc_census now;
	struct proc_range range;

	proc_census(&now);
	for (int i = 0; i < 2500 && now.threads > sc->before.threads; i++) {
		scene_nap_ms(2);
		proc_census(&now);
	}
	assert_int_equal(now.threads, sc->before.threads);
	assert_int_equal(now.fds, sc->before.fds);
	assert_int_equal(now.userfaultfds, sc->before.userfaultfds);
	proc_range(sc->ram.addr, sc->ram.len, &range);
	assert_int_equal(range.uffd_mappings, 0);
}

static bool fails_within(struct outcome (*fn)(const struct life *),
			 const struct life *l, long n)
{
	struct outcome o;

	arm(n);
	o = fn(l);
	disarm();
	if (o.err)
		expect_outcome(&o, -ENOMEM, SNAP_FAILURE_INTERNAL, "memory");
	assert_int_equal(live, 0);
	check_clean(l->sc);
	return o.err != 0;
}

static void saving_without_memory(struct life *l)
{
	long n = 0;

	while (fails_within(save, l, n)) {
		assert_int_equal(scene_files(l->sc), 0);
		assert_true(++n < BUDGET_MAX);
	}
	assert_true(n > 5);
	assert_int_equal(snap_image_verify(l->path), 0);
}

static void loading_without_memory(struct life *l)
{
	long n = 0;

	while (fails_within(load, l, n))
		assert_true(++n < BUDGET_MAX);
	assert_true(n > 2);
	assert_memory_equal(l->to, l->sc->ram.addr, l->sc->ram.len);
}

static void every_allocation_may_fail(void **state)
{
	static const struct scene_config cfg = {
		.name = "alloc", .ram_len = 4 * MB, .fill = FILL_HALF};
	struct life l = {.compress = *(enum snap_compress *)*state};
	struct scene sc;
	struct ram to;

	l.sc = &sc;
	scene_open(&sc, &cfg);
	assert_int_equal(ram_make(&to, RAM_ANON, sc.ram.len), 0);
	l.to = to.addr;
	snprintf(l.path, sizeof(l.path), "%s/x.snap", sc.dir);
	saving_without_memory(&l);
	loading_without_memory(&l);
	unlink(l.path);
	ram_free(&to);
	scene_close(&sc);
}

static void json_without_memory(void **state)
{
	struct snap *s;

	(void)state;
	assert_int_equal(snap_create(&s, NULL), 0);
	arm(0);
	free(snap_stats_json(s)); /* NULL or a text, no crash */
	disarm();
	assert_int_equal(live, 0);
	snap_destroy(s);
}

int main(void)
{
	static enum snap_compress none = SNAP_COMPRESS_NONE;
	static enum snap_compress zstd = SNAP_COMPRESS_ZSTD;
	const struct CMUnitTest tests[] = {
		{"every_allocation_may_fail_none", every_allocation_may_fail,
		 NULL, NULL, &none},
		{"every_allocation_may_fail_zstd", every_allocation_may_fail,
		 NULL, NULL, &zstd},
		cmocka_unit_test(json_without_memory),
	};

	return scene_exit_code(
		cmocka_run_group_tests_name("alloc", tests, NULL, NULL));
}

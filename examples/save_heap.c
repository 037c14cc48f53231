// SPDX-License-Identifier: MIT
/*
 * save_heap - a program saves its own data while it goes on changing it.
 *
 *	save_heap IMAGE
 *
 * The data is a list of accounts in an arena.  A thread moves money from one
 * to another all the time, which leaves the sum as it is; so a copy that is
 * not of one instant is given away by its sum.  For the snapshot point the
 * thread stands still between two transfers, and goes on at once.  Afterwards
 * the list is read back from the image, pointer by pointer.
 */
#include <errno.h>
#include <inttypes.h>
#include <libsnap.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_BYTES ((size_t)64 << 20)
#define ACCOUNTS 200000
#define MONEY 1000 /* in each account at first */

struct account {
	struct account *next;
	int64_t money;
	char owner[240];
};

/* All that is saved is in here.  libsnap's own memory must be outside, and
 * therefore so must the malloc heap. */
struct arena {
	size_t used; /* bytes, this head included */
	struct account *list;
	uint64_t transfers;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the arena */
static bool end;					 /* under lock, too */

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "save_heap: %s: %s\n", what, why);
	return -1;
}

/* A bump allocator: the next bytes that are free. */
static void *arena_alloc(struct arena *a, size_t bytes)
{
	void *p = (char *)a + a->used;

	if (ARENA_BYTES - a->used < bytes)
		return NULL;
	a->used += bytes;
	return p;
}

static struct arena *arena_create(void)
{
	struct arena *a = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i;

	if (a == MAP_FAILED)
		return NULL;
	a->used = sizeof(*a);
	for (i = 0; i < ACCOUNTS; i++) {
		struct account *acc = arena_alloc(a, sizeof(*acc));

		if (!acc)
			return NULL;
		acc->next = a->list;
		acc->money = MONEY;
		snprintf(acc->owner, sizeof(acc->owner), "customer %d", i);
		a->list = acc;
	}
	return a;
}

/* Money moves between two accounts picked at random. */
static void *transfers(void *arg)
{
	struct arena *a = arg;
	struct account *first = (struct account *)(a + 1);
	uint64_t seed = 1;
	bool more = true;

	while (more) {
		pthread_mutex_lock(&lock);
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		first[(seed >> 40) % ACCOUNTS].money -= 7;
		first[(seed >> 16) % ACCOUNTS].money += 7;
		a->transfers++;
		more = !end;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

/* Returns 0 and the number of transfers at the snapshot point. */
static int save(struct snap *s, struct arena *a, uint64_t *at)
{
	const struct snap_region region = {.size = sizeof(region),
					   .name = "arena",
					   .addr = a,
					   .length = ARENA_BYTES};
	int err;

	if (snap_add_region(s, &region) || snap_prepare(s))
		return fail("cannot prepare", snap_error_message());
	pthread_mutex_lock(&lock); /* nobody writes now */
	*at = a->transfers;
	err = snap_begin(s);
	pthread_mutex_unlock(&lock);
	if (err)
		return fail("cannot begin", snap_error_message());
	printf("Saving at transfer %" PRIu64 ".\n", *at);
	if (snap_wait(s, -1))
		return fail("the snapshot failed", snap_error_message());
	pthread_mutex_lock(&lock);
	printf("Saved; meanwhile there were %" PRIu64 " more.\n",
	       a->transfers - *at);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* The pointers in @copy are those of the arena it was copied from. */
static int read_back(struct snap_image *img, char *copy, uint64_t at)
{
	struct snap_image_region was = {.size = sizeof(was)};
	const struct arena *a = (const struct arena *)copy;
	const struct account *acc;
	int64_t sum = 0, count = 0;
	uintptr_t p;

	if (snap_image_get_region(img, 0, &was) || was.length != ARENA_BYTES ||
	    snap_image_read(img, 0, 0, copy, ARENA_BYTES))
		return fail("cannot read the image", snap_error_message());
	for (p = (uintptr_t)a->list; p; p = (uintptr_t)acc->next) {
		if (p - was.start > ARENA_BYTES - sizeof(*acc))
			return fail("the image", "a pointer leads nowhere");
		acc = (const struct account *)(copy + (p - was.start));
		sum += acc->money;
		count++;
	}
	printf("In the image: transfer %" PRIu64 ", %" PRId64 " accounts, "
	       "%" PRId64 " in all.\n",
	       a->transfers, count, sum);
	if (a->transfers != at || count != ACCOUNTS ||
	    sum != (int64_t)ACCOUNTS * MONEY)
		return fail("the image", "not of the instant of the snapshot");
	return 0;
}

static int run(struct arena *a, char *copy, const char *path)
{
	const struct snap_options opts = {
		.size = sizeof(opts), .output = path, .flags = SNAP_OVERWRITE};
	struct snap_image *img;
	pthread_t thread;
	struct snap *s;
	uint64_t at;
	int err;

	if (snap_create(&s, &opts))
		return fail("cannot begin", snap_error_message());
	err = pthread_create(&thread, NULL, transfers, a);
	if (err) {
		snap_destroy(s);
		return fail("no thread", strerror(err));
	}
	err = save(s, a, &at);
	snap_destroy(s);
	pthread_mutex_lock(&lock);
	end = true;
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	if (err)
		return err;
	if (snap_image_open(&img, path))
		return fail("cannot open the image", snap_error_message());
	err = read_back(img, copy, at);
	snap_image_close(img);
	return err;
}

int main(int argc, char **argv)
{
	struct arena *a;
	char *copy;

	if (argc != 2) {
		fputs("usage: save_heap IMAGE\n", stderr);
		return 2;
	}
	a = arena_create();
	copy = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!a || copy == MAP_FAILED) {
		fail("no memory", strerror(errno));
		return 1;
	}
	return run(a, copy, argv[1]) ? 1 : 0;
}

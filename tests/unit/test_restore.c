// SPDX-License-Identifier: MIT
/* Restoring: exact RAM, holes where there was nothing, nothing stale. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "lib/image_maker.h"
#include "libsnap.h"
#include "restore_dest.h"
#include "thread.h"
#include "util/util.h"

/* After ours: it makes a macro of fail, the member of struct failure_sink. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define RAM_BYTES (SAMPLE_PAGES * PAGE_BYTES)

static struct image_maker m;
static struct snap_image *img;
static int fd;

static atomic_int fail_pread; /* what the next sys_pread() gives */
static int fail_madvise;      /* what every sys_madvise() gives */
static atomic_int fail_threads;
static int threads;
static int huge_before; /* huge pages that the machine kept; -1: unknown */

ssize_t __real_sys_pread(int f, void *buf, size_t len, uint64_t offset);
ssize_t __wrap_sys_pread(int f, void *buf, size_t len, uint64_t offset);
int __real_sys_madvise(void *addr, size_t len, int advice);
int __wrap_sys_madvise(void *addr, size_t len, int advice);
int __real_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
			void *arg);
int __wrap_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
			void *arg);

ssize_t __wrap_sys_pread(int f, void *buf, size_t len, uint64_t offset)
{
	int err = atomic_exchange(&fail_pread, 0);

	return err ? err : __real_sys_pread(f, buf, len, offset);
}

int __wrap_sys_madvise(void *addr, size_t len, int advice)
{
	return fail_madvise ? fail_madvise
			    : __real_sys_madvise(addr, len, advice);
}

int __wrap_thread_start(pthread_t *out, const char *name, void *(*fn)(void *),
			void *arg)
{
	if (fail_threads)
		return error_set(-EAGAIN, SNAP_FAILURE_INTERNAL, "no threads");
	threads++;
	return __real_thread_start(out, name, fn, arg);
}

static void *map(size_t len, int flags, int file)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, file, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void assert_is_ram(const uint8_t *got)
{
	uint8_t page[PAGE_BYTES];

	for (uint64_t i = 0; i < SAMPLE_PAGES; i++) {
		memset(page, 0, sizeof(page));
		if (maker_sample_kind(i) == FRAME_DATA)
			maker_page(page, 0, i);
		if (memcmp(page, got + i * PAGE_BYTES, PAGE_BYTES))
			fail_msg("page %d is wrong", (int)i);
	}
}

/* Exactly the data pages are in memory. */
static void assert_has_holes(void *ram)
{
	unsigned char in[SAMPLE_PAGES];

	assert_int_equal(mincore(ram, RAM_BYTES, in), 0);
	for (uint64_t i = 0; i < SAMPLE_PAGES; i++)
		if ((in[i] & 1) != (maker_sample_kind(i) == FRAME_DATA))
			fail_msg("page %d is %d", (int)i, in[i] & 1);
}

static void restore_ram(void *ram, unsigned workers)
{
	memset(ram, 0x77, RAM_BYTES);
	if (snap_restore(img, 0, ram, RAM_BYTES, workers))
		fail_msg("restore: %s", error_text());
}

static void anonymous_memory_is_restored_with_holes(void **state)
{
	for (unsigned workers = 0; workers < 6; workers++) {
		void *ram = map(RAM_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);

		madvise(ram, RAM_BYTES, MADV_NOHUGEPAGE);
		restore_ram(ram, workers);
		assert_has_holes(ram);
		assert_is_ram(ram);
		munmap(ram, RAM_BYTES);
	}
}

/* Pages that the file has, by SEEK_DATA. */
static unsigned pages_of(int file)
{
	unsigned pages = 0;
	off_t at = 0, end;

	while ((at = lseek(file, at, SEEK_DATA)) >= 0) {
		end = lseek(file, at, SEEK_HOLE);
		pages += (unsigned)((size_t)(end - at) / PAGE_BYTES);
		at = end;
	}
	return pages;
}

static void shared_memory_is_restored_with_holes(void **state)
{
	int file = memfd_create("ram", MFD_CLOEXEC);
	void *ram;

	assert_int_equal(ftruncate(file, RAM_BYTES), 0);
	ram = map(RAM_BYTES, MAP_SHARED, file);
	restore_ram(ram, 2);
	assert_int_equal(pages_of(file), 8 + 24 + 5);
	assert_is_ram(ram);
	munmap(ram, RAM_BYTES);
	close(file);
}

/* Its own pages thrown away it would show the file's. */
static void a_private_file_mapping_shows_nothing_of_the_file(void **state)
{
	int file = memfd_create("ram", MFD_CLOEXEC);
	void *ram;

	assert_int_equal(ftruncate(file, RAM_BYTES), 0);
	for (size_t i = 0; i < RAM_BYTES; i += PAGE_BYTES)
		assert_int_equal(pwrite(file, "stale", 5, (off_t)i), 5);
	ram = map(RAM_BYTES, MAP_PRIVATE, file);
	restore_ram(ram, 2);
	assert_is_ram(ram);
	munmap(ram, RAM_BYTES);
	close(file);
}

static void memory_that_cannot_have_holes_is_zeroed(void **state)
{
	void *ram = map(RAM_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	fail_madvise = -EINVAL;
	restore_ram(ram, 1);
	assert_is_ram(ram);
	munmap(ram, RAM_BYTES);
}

/* Several mappings side by side, and no byte outside of the range. */
static void neighbours_keep_their_contents(void **state)
{
	int file = memfd_create("ram", MFD_CLOEXEC);
	uint8_t *all = map(RAM_BYTES + 2 * PAGE_BYTES,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1);
	uint8_t *ram = all + PAGE_BYTES;

	assert_int_equal(ftruncate(file, RAM_BYTES / 2), 0);
	assert_ptr_equal(mmap(ram, RAM_BYTES / 2, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED, file, 0),
			 ram);
	memset(all, 0x55, RAM_BYTES + 2 * PAGE_BYTES);
	restore_ram(ram, 2);
	assert_is_ram(ram);
	for (size_t i = 0; i < PAGE_BYTES; i++) {
		assert_int_equal(all[i], 0x55);
		assert_int_equal(ram[RAM_BYTES + i], 0x55);
	}
	munmap(all, RAM_BYTES + 2 * PAGE_BYTES);
	close(file);
}

/* How many huge pages the machine keeps; -1 when it cannot be said or set. */
static int huge_pages(int want)
{
	int had = -1;
	FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/"
			"nr_hugepages",
			want < 0 ? "r" : "r+");

	if (!f)
		return -1;
	if (fscanf(f, "%d", &had) != 1)
		had = -1;
	rewind(f);
	if (want >= 0 && fprintf(f, "%d", want) < 0)
		had = -1;
	fclose(f);
	return had;
}

/* Two huge pages, or the test is skipped. */
static uint8_t *map_huge(int flags)
{
	uint8_t *ram;

	huge_pages(huge_before + 2);
	ram = map(2 * BLOCK_BYTES, flags | MAP_ANONYMOUS | MAP_HUGETLB, -1);
	if (!ram) {
		print_message("skipped: this machine gives no huge pages\n");
		skip();
	}
	return ram;
}

/* A region of two huge pages, of which the second and the first one's half
 * were never touched. */
static void restore_huge(uint8_t *ram)
{
	const size_t len = 2 * BLOCK_BYTES;
	struct image_maker huge = {0};
	struct snap_image *h = NULL;
	uint8_t page[PAGE_BYTES];
	char path[64];

	maker_region(&huge, "huge", 2 * BLOCK_PAGES);
	maker_begin(&huge, 3);
	maker_frame(&huge, &(struct maker_frame){.codec = FRAME_CODEC_ZSTD},
		    (struct frame_extent[]){{0, 256, 0, FRAME_DATA},
					    {256, 256, 0, FRAME_ZERO},
					    {512, 512, 0, FRAME_ABSENT}},
		    3);
	maker_finish(&huge);
	maker_store(&huge, fd, huge.len);
	maker_free(&huge);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_int_equal(snap_image_open(&h, path), 0);
	memset(ram, 0x66, len);
	assert_int_equal(snap_restore(h, 0, ram, len, 2), 0);
	for (size_t i = 0; i < len; i += PAGE_BYTES) {
		memset(page, 0, sizeof(page));
		if (i < 256 * PAGE_BYTES)
			maker_page(page, 0, i / PAGE_BYTES);
		assert_memory_equal(ram + i, page, PAGE_BYTES);
	}
	munmap(ram, len);
	snap_image_close(h);
}

static void huge_pages_are_restored(void **state)
{
	restore_huge(map_huge(MAP_PRIVATE));
	restore_huge(map_huge(MAP_SHARED));
}

/* Not a whole huge page: the kernel would leave what is left of it alone. */
static void a_part_of_a_huge_page_is_cleared(void **state)
{
	uint8_t *ram = map_huge(MAP_PRIVATE);

	memset(ram, 0x66, 2 * BLOCK_BYTES);
	assert_int_equal(restore_dest_clear(ram, BLOCK_BYTES + 3 * PAGE_BYTES),
			 0);
	for (size_t i = 0; i < BLOCK_BYTES + 3 * PAGE_BYTES; i++)
		assert_int_equal(ram[i], 0);
	assert_int_equal(ram[BLOCK_BYTES + 3 * PAGE_BYTES], 0x66);
	munmap(ram, 2 * BLOCK_BYTES);
}

static void wrong_destinations_are_refused(void **state)
{
	uint8_t *ram = map(RAM_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	assert_int_equal(snap_restore(img, 0, ram, RAM_BYTES - 4096, 1),
			 -EINVAL);
	assert_int_equal(snap_restore(img, 0, ram + 8, RAM_BYTES, 1), -EINVAL);
	assert_int_equal(snap_restore(img, 3, ram, RAM_BYTES, 1), -ENOENT);
	assert_int_equal(snap_restore(img, 0, NULL, RAM_BYTES, 1), -EFAULT);
	memset(ram, 0x44, RAM_BYTES);
	mprotect(ram + 8 * PAGE_BYTES, PAGE_BYTES, PROT_READ);
	assert_int_equal(snap_restore(img, 0, ram, RAM_BYTES, 1), -EFAULT);
	munmap(ram + 8 * PAGE_BYTES, PAGE_BYTES);
	assert_int_equal(snap_restore(img, 0, ram, RAM_BYTES, 1), -EFAULT);
	assert_non_null(strstr(error_text(), "not mapped"));
	/* Nothing was touched before all of it had been looked at. */
	assert_int_equal(ram[0], 0x44);
	munmap(ram, RAM_BYTES);
}

static void a_frame_damaged_since_fails_the_restore(void **state)
{
	uint8_t *ram = map(RAM_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	size_t at = m.entries[1].offset + 4096 + 100;

	assert_int_equal(pwrite(fd, "X", 1, (off_t)at), 1);
	for (unsigned workers = 1; workers < 4; workers++) {
		assert_int_equal(snap_restore(img, 0, ram, RAM_BYTES, workers),
				 -EBADMSG);
		assert_non_null(strstr(error_text(), "damaged at byte"));
		assert_int_equal(error_failure(), SNAP_FAILURE_IMAGE);
	}
	munmap(ram, RAM_BYTES);
}

static void a_read_error_fails_the_restore(void **state)
{
	uint8_t *ram = map(RAM_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	fail_pread = -EIO;
	assert_int_equal(snap_restore(img, 0, ram, RAM_BYTES, 3), -EIO);
	assert_non_null(strstr(error_text(), "cannot read"));
	munmap(ram, RAM_BYTES);
}

static void without_threads_the_caller_does_it(void **state)
{
	uint8_t *ram = map(RAM_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	threads = 0;
	restore_ram(ram, 4);
	assert_int_equal(threads, 3);
	fail_threads = 1;
	restore_ram(ram, 4);
	assert_int_equal(threads, 3);
	assert_is_ram(ram);
	munmap(ram, RAM_BYTES);
}

static int setup(void **state)
{
	char path[64];

	fail_pread = fail_madvise = fail_threads = 0;
	huge_before = huge_pages(-1);
	maker_sample(&m);
	fd = memfd_create("image", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	maker_store(&m, fd, m.len);
	return snap_image_open(&img, path);
}

static int teardown(void **state)
{
	if (huge_before >= 0 && huge_pages(-1) != huge_before)
		huge_pages(huge_before);
	snap_image_close(img);
	close(fd);
	maker_free(&m);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(anonymous_memory_is_restored_with_holes),
		cmocka_unit_test(shared_memory_is_restored_with_holes),
		cmocka_unit_test(
			a_private_file_mapping_shows_nothing_of_the_file),
		cmocka_unit_test(memory_that_cannot_have_holes_is_zeroed),
		cmocka_unit_test(neighbours_keep_their_contents),
		cmocka_unit_test(huge_pages_are_restored),
		cmocka_unit_test(a_part_of_a_huge_page_is_cleared),
		cmocka_unit_test(wrong_destinations_are_refused),
		cmocka_unit_test(a_frame_damaged_since_fails_the_restore),
		cmocka_unit_test(a_read_error_fails_the_restore),
		cmocka_unit_test(without_threads_the_caller_does_it),
	};
	struct CMUnitTest fresh[ARRAY_SIZE(tests)];

	for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
		fresh[i] = tests[i];
		fresh[i].setup_func = setup;
		fresh[i].teardown_func = teardown;
	}
	return cmocka_run_group_tests(fresh, NULL, NULL);
}

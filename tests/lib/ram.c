// SPDX-License-Identifier: MIT
/* Makes the kinds of memory that a guest may live in. */
#include "ram.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u
#define HUGE ((size_t)2 << 20)

#define NR_HUGEPAGES "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
#define FREE_HUGEPAGES                                                         \
	"/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

static char why[160];
static long hugepages_before = -1;

const char *ram_why(void)
{
	return why;
}

const char *ram_kind_name(enum ram_kind kind)
{
	static const char *const names[RAM_KINDS] = {
		"anon", "thp", "memfd", "shared", "hugetlb", "hugetlb_memfd"};

	return names[kind];
}

static bool is_hugetlb(enum ram_kind kind)
{
	return kind == RAM_HUGETLB || kind == RAM_HUGETLB_MEMFD;
}

size_t ram_page_size(enum ram_kind kind)
{
	return is_hugetlb(kind) ? HUGE : PAGE;
}

static int not_here(const char *reason)
{
	snprintf(why, sizeof(why), "%s", reason);
	return -ENOTSUP;
}

static long read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	long n = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%ld", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

static bool write_number(const char *path, long n)
{
	FILE *f = fopen(path, "w");
	bool ok;

	if (!f)
		return false;
	ok = fprintf(f, "%ld\n", n) > 0;
	return fclose(f) == 0 && ok;
}

static void put_hugepages_back(void)
{
	write_number(NR_HUGEPAGES, hugepages_before);
}

static int want_hugepages(size_t n)
{
	long total = read_number(NR_HUGEPAGES);
	long spare = read_number(FREE_HUGEPAGES);

	if (total < 0 || spare < 0)
		return not_here("this kernel has no 2 MiB hugetlb pages");
	if ((size_t)spare >= n)
		return 0;
	if (hugepages_before < 0) {
		hugepages_before = total;
		atexit(put_hugepages_back);
	}
	write_number(NR_HUGEPAGES, total + (long)n - spare);
	spare = read_number(FREE_HUGEPAGES);
	if (spare < 0 || (size_t)spare < n)
		return not_here("not enough hugetlb pages, and nr_hugepages "
				"cannot be raised (root?)");
	return 0;
}

static int thp_possible(void)
{
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
	char line[80] = "";

	if (!f || !fgets(line, sizeof(line), f))
		line[0] = '\0';
	if (f)
		fclose(f);
	if (!strstr(line, "[always]") && !strstr(line, "[madvise]"))
		return not_here("transparent huge pages are off");
	return 0;
}

static int make_fd(struct ram *r)
{
	unsigned flags = MFD_CLOEXEC;

	if (r->kind == RAM_HUGETLB_MEMFD)
		flags |= MFD_HUGETLB | (21u << MAP_HUGE_SHIFT);
	else if (r->kind != RAM_MEMFD)
		return 0;
	r->fd = memfd_create("guest-ram", flags);
	if (r->fd < 0)
		return -errno;
	return ftruncate(r->fd, (off_t)r->len) < 0 ? -errno : 0;
}

/* Room for the alignment is mapped first and the rest given back. */
static int map_aligned(struct ram *r, int flags)
{
	size_t room = r->len + HUGE;
	uint8_t *p = mmap(NULL, room, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *at;

	if (p == MAP_FAILED)
		return -errno;
	at = (uint8_t *)(((uintptr_t)p + HUGE - 1) & ~(HUGE - 1));
	if (mmap(at, r->len, PROT_READ | PROT_WRITE, flags | MAP_FIXED, r->fd,
		 0) == MAP_FAILED) {
		int err = -errno;

		munmap(p, room);
		return err;
	}
	r->map = p;
	r->map_len = room;
	r->addr = at;
	return 0;
}

static int flags_of(enum ram_kind kind)
{
	switch (kind) {
	case RAM_ANON:
	case RAM_THP:
		return MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	case RAM_SHARED:
		return MAP_SHARED | MAP_ANONYMOUS;
	case RAM_HUGETLB:
		return MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
		       (21 << MAP_HUGE_SHIFT);
	default:
		return MAP_SHARED;
	}
}

static int advise(struct ram *r)
{
	int advice;

	if (r->kind != RAM_ANON && r->kind != RAM_THP)
		return 0;
	advice = r->kind == RAM_THP ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
	/* EINVAL: a kernel without huge pages, where 4 KiB is all there is. */
	if (madvise(r->addr, r->len, advice) < 0 &&
	    (errno != EINVAL || r->kind == RAM_THP))
		return -errno;
	return 0;
}

int ram_make(struct ram *r, enum ram_kind kind, size_t len)
{
	int err = 0;

	*r = (struct ram){.kind = kind, .len = len, .fd = -1};
	r->page_size = ram_page_size(kind);
	if (kind == RAM_THP)
		err = thp_possible();
	else if (is_hugetlb(kind))
		err = want_hugepages(len / HUGE);
	if (!err)
		err = make_fd(r);
	if (!err)
		err = map_aligned(r, flags_of(kind));
	if (err == -ENOMEM && is_hugetlb(kind))
		err = not_here("another program took the hugetlb pages");
	if (!err)
		err = advise(r);
	if (err)
		ram_free(r);
	return err;
}

void ram_free(struct ram *r)
{
	if (r->map)
		munmap(r->map, r->map_len);
	if (r->fd >= 0)
		close(r->fd);
	*r = (struct ram){.fd = -1};
}

static uint64_t file_absent(const struct ram *r, size_t offset, size_t len)
{
	off_t at = (off_t)offset, end = (off_t)(offset + len);
	off_t present = 0;

	while (at < end) {
		off_t data = lseek(r->fd, at, SEEK_DATA);
		off_t hole;

		if (data < 0 || data >= end)
			break;
		hole = lseek(r->fd, data, SEEK_HOLE);
		at = hole < 0 || hole > end ? end : hole;
		present += at - data;
	}
	return (len - (size_t)present) / PAGE;
}

/* Bits 62 and 63 of an entry of the page map: swapped, present.  A hole that has
 * a write-protect mark looks swapped out, to the highest type there is (without
 * CAP_SYS_ADMIN it reads as 0). */
static bool is_absent(uint64_t entry)
{
	bool marked_hole = entry >> 62 == 1 && (entry & 0x1f) == 0x1f;

	return !(entry >> 62) || marked_hole;
}

static uint64_t map_absent(const struct ram *r, size_t offset, size_t len)
{
	uint64_t first = (uintptr_t)(r->addr + offset) / PAGE, absent = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entries[512];
	size_t left = len / PAGE;

	while (fd >= 0 && left) {
		size_t n = left < 512 ? left : 512;

		if (pread(fd, entries, n * 8, (off_t)(first * 8)) !=
		    (ssize_t)(n * 8))
			break;
		for (size_t i = 0; i < n; i++)
			absent += is_absent(entries[i]);
		first += n;
		left -= n;
	}
	if (fd >= 0)
		close(fd);
	return absent;
}

uint64_t ram_absent_pages(const struct ram *r, size_t offset, size_t len)
{
	/* hugetlb files call everything data, but their pages are mapped. */
	return r->kind == RAM_MEMFD ? file_absent(r, offset, len)
				    : map_absent(r, offset, len);
}

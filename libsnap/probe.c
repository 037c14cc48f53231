// SPDX-License-Identifier: MIT
/* What this kernel can do: one tiny attempt at each, no version numbers. */
#include "probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include <jansson.h>

#include "libsnap.h"
#include "residency.h"
#include "sys.h"
#include "uffd.h"
#include "util/util.h"
#include "writer_backend.h"

static bool opens(const char *path, int flags)
{
	int fd = sys_open(path, flags, 0);

	if (fd < 0)
		return false;
	sys_close(fd);
	return true;
}

static bool may_call_userfaultfd(void)
{
	int fd = sys_userfaultfd(O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return false;
	sys_close(fd);
	return true;
}

/* One page of such memory, registered and write-protected. */
static bool protects(int map_flags, uint64_t features)
{
	int uffd = uffd_open();
	bool works = false;
	void *page;

	if (uffd < 0)
		return false;
	if (!uffd_enable(uffd, features) &&
	    !sys_mmap(&page, PAGE_BYTES, PROT_READ | PROT_WRITE,
		      map_flags | MAP_ANONYMOUS, -1, 0)) {
		uint64_t at = (uint64_t)(uintptr_t)page;

		*(volatile char *)page = 1;
		works = !uffd_register(uffd, at, PAGE_BYTES) &&
			!uffd_protect(uffd, at, PAGE_BYTES);
		sys_munmap(page, PAGE_BYTES);
	}
	sys_close(uffd);
	return works;
}

static void probe_uffd(struct probe *p)
{
	uint64_t features = 0;

	p->uffd_device = opens("/dev/userfaultfd", O_RDWR);
	p->uffd_syscall = may_call_userfaultfd();
	if (uffd_features(&features))
		return;
	p->wp_unpopulated = features & UFFD_FEATURE_WP_UNPOPULATED;
	if (!(features & UFFD_FEATURE_PAGEFAULT_FLAG_WP))
		return;
	p->wp_anon = protects(MAP_PRIVATE, UFFD_FEATURE_PAGEFAULT_FLAG_WP);
	if (!(features & UFFD_FEATURE_WP_HUGETLBFS_SHMEM))
		return;
	p->wp_shmem =
		protects(MAP_SHARED, UFFD_FEATURE_PAGEFAULT_FLAG_WP |
					     UFFD_FEATURE_WP_HUGETLBFS_SHMEM);
	/* One bit is both; huge pages to try it on are seldom free. */
	p->wp_hugetlb = p->wp_shmem;
}

static int read_ptrace_scope(void)
{
	int fd = sys_open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY, 0);
	char text[8] = "";
	ssize_t n;

	if (fd < 0)
		return -1;
	n = sys_read(fd, text, sizeof(text) - 1);
	sys_close(fd);
	return n > 0 ? atoi(text) : -1;
}

void probe_run(struct probe *p)
{
	struct residency r;
	struct utsname u;

	memset(p, 0, sizeof(*p));
	probe_uffd(p);
	if (!residency_open(&r, 0)) {
		p->pagemap_scan = r.scan;
		residency_close(&r);
	}
	p->io_uring = uring_works();
	p->kvm = opens("/dev/kvm", O_RDWR);
	p->ptrace_scope = read_ptrace_scope();
	if (!uname(&u))
		snprintf(p->kernel, sizeof(p->kernel), "%.64s", u.release);
}

char *snap_probe_json(void)
{
	struct probe p;
	json_t *o;
	char *line;

	probe_run(&p);
	/* perm_upgrade shows in KVM's behaviour only, which is not tried. */
	o = json_pack(
		"{s:s,s:{s:b,s:b,s:b},s:b,s:b,s:b,s:{s:b,s:b},s:b,s:o,s:s}",
		"perm_upgrade", "unknown", "uffd_wp", "anon", p.wp_anon,
		"shmem", p.wp_shmem, "hugetlb", p.wp_hugetlb, "wp_unpopulated",
		p.wp_unpopulated, "pagemap_scan", p.pagemap_scan, "io_uring",
		p.io_uring, "uffd", "device", p.uffd_device, "syscall",
		p.uffd_syscall, "kvm", p.kvm, "ptrace_scope",
		p.ptrace_scope < 0 ? json_null() : json_integer(p.ptrace_scope),
		"kernel", p.kernel);
	if (!o)
		return NULL;
	line = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return line;
}

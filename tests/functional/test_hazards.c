// SPDX-License-Identifier: MIT
/* What another process may have that a snapshot refuses, each for real. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libsnap.h"

#define RAM_BYTES ((size_t)4 << 20)
#define KSM_RUN "/sys/kernel/mm/ksm/run"
#define OUTPUT "hazard-output"

/* Shared with the target. */
struct shared {
	_Atomic uint32_t ready; /* 2: it cannot have the hazard here */
	_Atomic uint64_t addr;
	int fd; /* of its RAM, where that has one, in the target */
};

struct target {
	struct shared *shared;
	pid_t pid;
};

typedef void (*body)(struct shared *s);

static void *private_ram(void)
{
	void *p = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(1);
	memset(p, 1, RAM_BYTES);
	return p;
}

static void have_nothing(struct shared *s)
{
	s->addr = (uint64_t)(uintptr_t)private_ram();
}

static void have_a_userfaultfd(struct shared *s)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	void *ram = private_ram();
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	reg.range.start = (uint64_t)(uintptr_t)ram;
	reg.range.len = RAM_BYTES;
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) ||
	    ioctl(fd, UFFDIO_REGISTER, &reg)) {
		s->ready = 2;
		_exit(0);
	}
	s->addr = (uint64_t)(uintptr_t)ram;
}

static void have_an_io_uring(struct shared *s)
{
	/* struct io_uring_params is 120 bytes of which none is needed */
	char params[120] = {0};
	void *ram = private_ram();
	struct iovec iov = {(char *)ram + 4096, 8192};
	int fd = (int)syscall(SYS_io_uring_setup, 2, params);

	if (fd < 0 || syscall(SYS_io_uring_register, fd, 0, &iov, 1)) {
		s->ready = 2;
		_exit(0);
	}
	s->addr = (uint64_t)(uintptr_t)ram;
}

static void have_shared_memory(struct shared *s)
{
	int fd = memfd_create("ram", 0);
	void *ram;

	if (fd < 0 || ftruncate(fd, (off_t)RAM_BYTES))
		_exit(1);
	ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ram == MAP_FAILED)
		_exit(1);
	memset(ram, 1, RAM_BYTES);
	s->fd = fd;
	/* It goes on in another process, as a vhost-user device would. */
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	s->addr = (uint64_t)(uintptr_t)ram;
}

static void be_mergeable(struct shared *s)
{
	void *ram = private_ram();

	if (madvise(ram, RAM_BYTES, MADV_MERGEABLE)) {
		s->ready = 2;
		_exit(0);
	}
	s->addr = (uint64_t)(uintptr_t)ram;
}

static void have_the_output_mapped(struct shared *s)
{
	int fd = open(OUTPUT, O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, 4096) ||
	    mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
		_exit(1);
	s->addr = (uint64_t)(uintptr_t)private_ram();
}

static void start(struct target *t, body fn)
{
	t->shared = mmap(NULL, sizeof(*t->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(t->shared, MAP_FAILED);
	t->pid = fork();
	assert_true(t->pid >= 0);
	if (!t->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(t->shared);
		atomic_store(&t->shared->ready, 1);
		for (;;)
			pause();
	}
	while (!atomic_load(&t->shared->ready))
		usleep(100);
	if (atomic_load(&t->shared->ready) != 2)
		return;
	waitpid(t->pid, NULL, 0);
	print_message("this machine does not let a process have it\n");
	skip();
}

static void stop(struct target *t)
{
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
	munmap(t->shared, sizeof(*t->shared));
}

static int prepare(struct snap **s, const struct target *t, unsigned allow,
		   const char *output)
{
	const struct snap_options o = {.size = sizeof(o),
				       .pid = t->pid,
				       .allow = allow,
				       .output = output,
				       .flags = output ? SNAP_OVERWRITE : 0};
	const struct snap_region r = {
		.size = sizeof(r),
		.name = "ram",
		.addr = (void *)(uintptr_t)atomic_load(&t->shared->addr),
		.length = RAM_BYTES,
	};

	assert_int_equal(snap_create(s, &o), 0);
	assert_int_equal(snap_add_region(*s, &r), 0);
	return snap_prepare(*s);
}

static void expect_refused(const struct target *t, const char *name,
			   const char *output)
{
	struct snap *s;

	assert_int_equal(prepare(&s, t, 0, output), -EBUSY);
	assert_int_equal(snap_error_failure(), SNAP_FAILURE_REFUSED);
	if (!strstr(snap_error_message(), name) ||
	    !strstr(snap_error_message(), "region ram"))
		fail_msg("%s", snap_error_message());
	snap_destroy(s);
}

static void expect_allowed(const struct target *t, unsigned allow,
			   const char *output)
{
	struct snap *s;

	if (prepare(&s, t, allow, output) || snap_begin(s) ||
	    snap_wait(s, 20000))
		fail_msg("%s", snap_error_message());
	snap_destroy(s);
}

static void nothing_is_found_where_nothing_is(void **state)
{
	struct target t;

	(void)state;
	start(&t, have_nothing);
	expect_allowed(&t, 0, NULL);
	stop(&t);
}

static void another_userfaultfd(void **state)
{
	struct target t;
	struct snap *s;

	(void)state;
	start(&t, have_a_userfaultfd);
	expect_refused(&t, "(uffd)", NULL);
	assert_int_equal(prepare(&s, &t, ~0u >> 27, NULL), -EBUSY);
	snap_destroy(s);
	stop(&t);
}

static void registered_buffers(void **state)
{
	struct target t;

	(void)state;
	start(&t, have_an_io_uring);
	expect_refused(&t, "(io_uring)", NULL);
	expect_allowed(&t, SNAP_HAZARD_IO_URING, NULL);
	stop(&t);
}

static void ram_that_another_process_has_mapped(void **state)
{
	struct target t;

	(void)state;
	start(&t, have_shared_memory);
	expect_refused(&t, "(shared)", NULL);
	expect_allowed(&t, SNAP_HAZARD_SHARED, NULL);
	stop(&t);
}

static int write_ksm(char c)
{
	int fd = open(KSM_RUN, O_WRONLY | O_CLOEXEC);
	int err = fd < 0 || write(fd, &c, 1) != 1;

	if (fd >= 0)
		close(fd);
	return err;
}

static void ram_that_is_merged(void **state)
{
	char before = '0';
	struct target t;
	int fd = open(KSM_RUN, O_RDONLY | O_CLOEXEC);

	(void)state;
	if (fd < 0 || read(fd, &before, 1) != 1 || write_ksm('1')) {
		print_message("ksmd cannot be started here\n");
		skip();
	}
	close(fd);
	start(&t, be_mergeable);
	expect_refused(&t, "(ksm)", NULL);
	expect_allowed(&t, SNAP_HAZARD_KSM, NULL);
	write_ksm(before);
	expect_allowed(&t, 0, NULL);
	stop(&t);
}

static void output_that_is_mapped(void **state)
{
	struct target t;

	(void)state;
	start(&t, have_the_output_mapped);
	expect_refused(&t, "(output)", OUTPUT);
	expect_allowed(&t, SNAP_HAZARD_OUTPUT, OUTPUT);
	stop(&t);
	unlink(OUTPUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_found_where_nothing_is),
		cmocka_unit_test(another_userfaultfd),
		cmocka_unit_test(registered_buffers),
		cmocka_unit_test(ram_that_another_process_has_mapped),
		cmocka_unit_test(ram_that_is_merged),
		cmocka_unit_test(output_that_is_mapped),
	};

#ifdef __SANITIZE_THREAD__
	puts("skipped: the thread sanitizer has memory of its own in the "
	     "process that is saved");
	return 77;
#endif
	return cmocka_run_group_tests_name("hazards", tests, NULL, NULL);
}

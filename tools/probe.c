// SPDX-License-Identifier: MIT
/* snapctl probe - what this kernel can do, and what is missing for what. */
#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "snapctl.h"

/* An ability, and what to say when it is missing. */
struct ability {
	const char *path[2]; /* in the object */
	const char *name;
	const char *missing;
};

static const struct ability abilities[] = {
	{{"uffd", "syscall"},
	 "userfaultfd(2) for kernel faults",
	 "needs CAP_SYS_PTRACE or vm.unprivileged_userfaultfd = 1; the device "
	 "does instead"},
	{{"uffd", "device"},
	 "/dev/userfaultfd",
	 "Linux 6.1 has it, for whom its mode admits; the system call does "
	 "instead"},
	{{"uffd_wp", "anon"},
	 "write-protecting anonymous memory",
	 "Linux 5.7; nothing can be saved without"},
	{{"uffd_wp", "shmem"},
	 "write-protecting shared memory",
	 "Linux 5.19; guests on memfd need it"},
	{{"uffd_wp", "hugetlb"},
	 "write-protecting hugetlb",
	 "Linux 5.19; guests on huge pages need it"},
	{{"wp_unpopulated", NULL},
	 "write-protecting holes",
	 "Linux 6.4; without it RAM is filled with zero pages first, and other "
	 "processes cannot be saved"},
	{{"pagemap_scan", NULL},
	 "PAGEMAP_SCAN",
	 "Linux 6.7; without it the page map is read entry by entry"},
	{{"io_uring", NULL},
	 "io_uring",
	 "kernel.io_uring_disabled or a seccomp filter; pwrite() is used "
	 "instead"},
	{{"kvm", NULL},
	 "/dev/kvm",
	 "only the examples and tests with a KVM guest need it"},
};

static bool has(const json_t *o, const struct ability *a)
{
	const json_t *at = json_object_get(o, a->path[0]);

	if (a->path[1])
		at = json_object_get(at, a->path[1]);
	return json_is_true(at);
}

static void print_text(const json_t *o)
{
	const json_t *scope = json_object_get(o, "ptrace_scope");
	size_t i;

	printf("Linux %s\n", json_string_value(json_object_get(o, "kernel")));
	for (i = 0; i < sizeof(abilities) / sizeof(abilities[0]); i++) {
		const struct ability *a = &abilities[i];

		if (has(o, a))
			printf("yes  %s\n", a->name);
		else
			printf("no   %s: %s\n", a->name, a->missing);
	}
	if (json_integer_value(scope) > 0)
		printf("     yama.ptrace_scope is %d: to save another process "
		       "takes CAP_SYS_PTRACE\n",
		       (int)json_integer_value(scope));
	printf("     permission upgrade: %s\n",
	       json_string_value(json_object_get(o, "perm_upgrade")));
}

static enum exit_code run(const struct command *self, int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	bool as_json = false;
	json_t *o;
	char *text;
	int c;

	while ((c = getopt_long(argc, argv, "jh", options, NULL)) != -1) {
		if (c == 'h')
			return usage_help(self);
		if (c != 'j')
			return usage_error(self);
		as_json = true;
	}
	if (optind != argc)
		return usage_error(self);
	text = snap_probe_json();
	o = text ? json_loads(text, 0, NULL) : NULL;
	if (!o) {
		free(text);
		return fail(EXIT_FAILED, "no memory");
	}
	if (as_json)
		puts(text);
	else
		print_text(o);
	json_decref(o);
	free(text);
	return EXIT_DONE;
}

const struct command command_probe = {
	.name = "probe",
	.synopsis = "[--json]",
	.summary = "what this kernel can do, and what is missing for what",
	.run = run,
};

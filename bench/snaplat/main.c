// SPDX-License-Identifier: MIT
/* snaplat - what a guest feels of a snapshot, beside other ways to take it. */
#include "options.h"
#include "verbs.h"

#include <stdio.h>
#include <string.h>

static int run_compare(int argc, char **argv)
{
	struct settings set;
	struct comparison results;

	options_parse(&set, argc, argv);
	compare_run(&set, &results);
	if (set.json)
		json_write(&results);
	if (set.report)
		html_write(&results);
	/* With the JSON on stdout there is no place for a table. */
	if (!set.json || strcmp(set.json, "-") != 0)
		table_print(&results), aims_print(&results);
	return 0;
}

static void help(void)
{
	puts("usage: snaplat compare [OPTION]...\n"
	     "       snaplat watch --pid PID [--seconds S] [--json]\n"
	     "       snaplat micro [--calls N] [--json]\n"
	     "\n"
	     "compare: a guest is saved in several ways, in turn, and probed\n"
	     "  --mem SIZE       RAM of the guest (256M)\n"
	     "  --seconds S      for each row of the table (1)\n"
	     "  --pattern LIST   read64,rand-set,write64 (these), "
	     "hot,exec,idle\n"
	     "  --backing LIST   anon,thp,memfd (all)\n"
	     "  --modes LIST     none,snap,page,fork,stop (all)\n"
	     "  --guest KIND     process or kvm (process)\n"
	     "  --rounds N       interleaved, medians are shown (3)\n"
	     "  --threads N      of the process guest that work (1)\n"
	     "  --probe-us N     the probe's pace (50)\n"
	     "  --think-ns N     between two steps of the work (1000)\n"
	     "  --output-dir DIR images go to files there (/dev/null)\n"
	     "  --json FILE      everything measured; -: stdout\n"
	     "  --report FILE    a page with plots (.html)\n"
	     "\n"
	     "watch: what a snapshot of a process would cost, without one\n"
	     "  --seconds S      to see what it writes meanwhile (1)\n"
	     "\n"
	     "micro: cycles of write-protecting and of promoting one page\n"
	     "  --calls N        medians of so many (20000)");
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (!strcmp(verb, "compare"))
		return run_compare(argc - 1, argv + 1);
	if (!strcmp(verb, "watch"))
		return watch_main(argc - 1, argv + 1);
	if (!strcmp(verb, "micro"))
		return micro_main(argc - 1, argv + 1);
	if (!strcmp(verb, "--help")) {
		help();
		return 0;
	}
	if (!strcmp(verb, "--version")) {
		printf("snaplat %s\n", snap_version());
		return 0;
	}
	usage_die("%s: not a command", *verb ? verb : "(none)");
}

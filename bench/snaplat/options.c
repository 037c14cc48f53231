// SPDX-License-Identifier: MIT
/* The command line of `snaplat compare`. */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void usage_die(const char *fmt, const char *what)
{
	fputs("snaplat: ", stderr);
	fprintf(stderr, fmt, what);
	fputs("\nsnaplat: see `snaplat --help'\n", stderr);
	exit(2);
}

size_t parse_size(const char *text)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	switch (*end) {
	case 'G':
	case 'g':
		n <<= 10;
		/* fall through */
	case 'M':
	case 'm':
		n <<= 20;
		end++;
	}
	if (end == text || *end || n < 16 * MIB || n % BLOCK || n >> 40)
		usage_die("--mem %s: 16M or more, a multiple of 2M", text);
	return n;
}

double parse_number(const char *option, const char *text, double min,
		    double max)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !(v >= min && v <= max))
		usage_die("%s is out of its range", option);
	return v;
}

/* A comma-separated choice of @names as bits. */
static unsigned parse_list(const char *option, const char *text,
			   const char *const *names, unsigned n)
{
	unsigned bits = 0;

	while (*text) {
		size_t len = strcspn(text, ",");
		unsigned i = 0;

		while (i < n && (strlen(names[i]) != len ||
				 strncmp(names[i], text, len) != 0))
			i++;
		if (i == n)
			usage_die("%s: no such choice", option);
		bits |= 1u << i;
		text += len + (text[len] == ',');
	}
	if (!bits)
		usage_die("%s: nothing chosen", option);
	return bits;
}

static unsigned parse_patterns(const char *text)
{
	const char *names[PATTERNS];

	for (unsigned i = 0; i < PATTERNS; i++)
		names[i] = pattern_name((enum pattern)i);
	return parse_list("--pattern", text, names, PATTERNS);
}

static unsigned parse_modes(const char *text)
{
	const char *names[MODES];

	for (unsigned i = 0; i < MODES; i++)
		names[i] = compare_modes[i]->name;
	/* The noise is always shown. */
	return parse_list("--modes", text, names, MODES) | 1;
}

static const struct guest_ops *parse_guest(const char *text)
{
	if (strcmp(text, "process") == 0)
		return &guest_process;
	if (strcmp(text, "kvm") == 0)
		return &guest_kvm;
	usage_die("--guest %s: process or kvm", text);
	return NULL;
}

static void set_option(struct settings *s, int c, const char *text)
{
	static const char *const backings[] = {"anon", "thp", "memfd"};

	if (c == 'm')
		s->mem = parse_size(text);
	else if (c == 's')
		s->seconds = parse_number("--seconds", text, 0.01, 3600);
	else if (c == 'p')
		s->patterns = parse_patterns(text);
	else if (c == 'b')
		s->backings = parse_list("--backing", text, backings, BACKINGS);
	else if (c == 'M')
		s->modes = parse_modes(text);
	else if (c == 'g')
		s->guest = parse_guest(text);
	else if (c == 'r')
		s->rounds =
			(unsigned)parse_number("--rounds", text, 1, ROUNDS_MAX);
	else if (c == 'j')
		s->json = text;
	else if (c == 'R')
		s->report = text;
	else if (c == 'o')
		s->dir = text;
	else if (c == 'P')
		s->probe_us = parse_number("--probe-us", text, 10, 1e6);
	else if (c == 'T')
		s->think_ns = parse_number("--think-ns", text, 0, 1e9);
	else if (c == 't')
		s->threads = (unsigned)parse_number("--threads", text, 1, 16);
	else
		usage_die("%s", "unknown option");
}

void options_parse(struct settings *s, int argc, char **argv)
{
	static const struct option options[] = {
		{"mem", 1, NULL, 'm'},	    {"seconds", 1, NULL, 's'},
		{"pattern", 1, NULL, 'p'},  {"backing", 1, NULL, 'b'},
		{"modes", 1, NULL, 'M'},    {"guest", 1, NULL, 'g'},
		{"rounds", 1, NULL, 'r'},   {"json", 1, NULL, 'j'},
		{"report", 1, NULL, 'R'},   {"output-dir", 1, NULL, 'o'},
		{"probe-us", 1, NULL, 'P'}, {"think-ns", 1, NULL, 'T'},
		{"threads", 1, NULL, 't'},  {0},
	};
	int c;

	*s = (struct settings){.mem = 256 * MIB,
			       .seconds = 1,
			       .rounds = 3,
			       .patterns = 1u << PATTERN_READ64 |
					   1u << PATTERN_RAND_SET |
					   1u << PATTERN_WRITE64,
			       .backings = (1u << BACKINGS) - 1,
			       .modes = (1u << MODES) - 1,
			       .guest = &guest_process,
			       .probe_us = 50,
			       .think_ns = 1000,
			       .threads = 1};
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		set_option(s, c, optarg);
	if (optind != argc)
		usage_die("%s: unexpected", argv[optind]);
}

/* SPDX-License-Identifier: MIT */
/* The command lines. */
#ifndef SNAPLAT_OPTIONS_H
#define SNAPLAT_OPTIONS_H

#include "compare.h"

/** Wrong usage: says so and ends the program with 2. */
void usage_die(const char *fmt, const char *what)
	__attribute__((noreturn, format(printf, 1, 0)));

/** Bytes from a number with M or G. */
size_t parse_size(const char *text);
double parse_number(const char *option, const char *text, double min,
		    double max);

/** @argv from the verb on. */
void options_parse(struct settings *s, int argc, char **argv);

#endif

/* SPDX-License-Identifier: MIT */
/* Lines on standard error, as journald takes them. */
#ifndef SNAPD_LOG_H
#define SNAPD_LOG_H

enum log_level { LOG_ERROR, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
/** By its name.  0 or -1. */
int log_parse_level(const char *name, enum log_level *out);
void log_say(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif

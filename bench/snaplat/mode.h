/* SPDX-License-Identifier: MIT */
/* Ways to save a guest's RAM. */
#ifndef SNAPLAT_MODE_H
#define SNAPLAT_MODE_H

#include "guest.h"

/** One save of one guest. */
struct shot {
	struct guest *g;
	const char *dir; /* for the image; NULL: to /dev/null */
	double seconds;	 /* mode none: how long nothing is to happen */

	/* Ticks. */
	uint64_t asked;	  /* preparing begins */
	uint64_t begin;	  /* the pause begins */
	uint64_t resumed; /* the guest runs again */
	uint64_t end;	  /* the guest is left alone: all is unprotected */
	uint64_t done;	  /* the image is complete */
	uint64_t begin_work, end_work; /* guest_work() */
	uint64_t faults;	       /* write faults answered */
	bool has_faults;	       /* ... where the mode knows */
};

struct mode {
	const char *name;
	/** Why it cannot save such RAM, or NULL. */
	const char *(*refuse)(const struct guest *g);
	/** Save.  Calls shot_pause(), shot_resume() and shot_end(), once each.
	 * die()s when it fails. */
	void (*take)(struct shot *s);
};

extern const struct mode mode_none, mode_snap, mode_page, mode_fork, mode_stop;
/** Not a way to save: the least that a copy before write can cost. */
extern const struct mode mode_bare;

void shot_pause(struct shot *s);
void shot_resume(struct shot *s);
/** The guest is left alone from now on. */
void shot_end(struct shot *s);

/** Where the image goes: an open descriptor and, in @path, the name of a file
 * to remove, or "". */
int sink_open(const struct shot *s, char path[512]);
void sink_close(const struct shot *s, int fd, const char *path);
/** All of it, by write(2). */
void sink_write(int fd, const void *buf, size_t len);
/** Whether all of it is zero: what savers look at each page for. */
bool sink_is_zero(const void *buf, size_t len);

#endif

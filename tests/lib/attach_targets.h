/* SPDX-License-Identifier: MIT */
/* Processes that are attached to: a body runs in a child, its progress and its
 * troubles are seen through shared memory. */
#ifndef TEST_ATTACH_TARGETS_H
#define TEST_ATTACH_TARGETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define BOARD_LANES 32

/* Where a target is a fork of a program with the thread sanitizer, it has a
 * thread, mappings and signal handling that are not its own. */
#ifdef __SANITIZE_THREAD__
#define PREY_IS_PLAIN 0
#else
#define PREY_IS_PLAIN 1
#endif

/** To return from main() when !PREY_IS_PLAIN. */
int prey_skip(void);

/** Shared by the test and the target. */
struct board {
	_Atomic uint32_t ready;	  /* the body is where it is to be */
	_Atomic uint32_t go;	  /* the test asks for whatever comes next */
	_Atomic uint32_t done;	  /* the body has done it */
	_Atomic uint32_t trouble; /* wrong registers, memory, results */
	_Atomic uint32_t signals; /* handlers that ran */
	_Atomic int64_t result;	  /* of a system call, -errno */
	_Atomic int64_t number;	  /* whatever a body has to tell */
	_Atomic uint64_t beats;	  /* of threads that came and went */
	_Atomic uint64_t lane[BOARD_LANES]; /* one a thread that counts */
};

typedef void (*target_body)(struct board *b);

struct attach_prey {
	pid_t pid;
	struct board *board;
};

/** Run @body in a child, wait until board.ready.  The child dies with us. */
void prey_start(struct attach_prey *p, target_body body);
/** SIGKILL and wait. */
void prey_stop(struct attach_prey *p);

/** Wait until @word is @at_least, 5 s at most: false when it did not come. */
bool board_wait(_Atomic uint32_t *word, uint32_t at_least);
/** Every one of @lanes counts on. */
bool board_alive(struct board *b, unsigned lanes);

/* Bodies. */

/** @lanes threads that keep known values in all registers and look after
 * them. */
void body_spin_1(struct board *b);
void body_spin_5(struct board *b);
/** Waits for ever in pause(). */
void body_pause(struct board *b);
/** A main thread that waits and others that are started and end all the
 * time; everyone's sum is checked. */
void body_storm(struct board *b);

/** Start a thread that counts in @lane as body_spin_1() does. */
void start_spinner(struct board *b, unsigned lane);

/* What /proc says of a target. */

/** A decimal or, with base 16, a hexadecimal field of its status. */
uint64_t prey_status(pid_t pid, const char *field, int base);
struct prey_census {
	unsigned fds, userfaultfds, threads;
	uint64_t tracer, pending;
	unsigned mappings; /* these two */
	uint64_t memory;   /* checksum of all private writable memory */
};
/** The two @with_memory only, when nothing in it runs. */
void prey_census(pid_t pid, struct prey_census *c, bool with_memory);
/** Fails the test when the two differ. */
void expect_census(const struct prey_census *before,
		   const struct prey_census *after);
/** Wait until thread @tid of it sleeps in a system call. */
void prey_wait_asleep(pid_t pid, pid_t tid);
/** Registers of a thread, read by a tracer that comes and goes. */
struct user_regs_struct;
void prey_registers(pid_t tid, struct user_regs_struct *regs);

#endif

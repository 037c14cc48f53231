/* SPDX-License-Identifier: MIT */
/*
 * The life of one snapshot.
 *
 * How it works.  session_prepare() builds everything and starts the threads;
 * the session's own thread sleeps.  session_begin() arms and wakes it.  That
 * thread is the sweep, and afterwards it ends the snapshot: release the guest
 * first, then drain the encoders, then finish the file.  A failure anywhere is
 * noted by session_fail(), which never blocks; the session's thread sees it and
 * takes everything down, the guest first.
 *
 * struct snap's lock guards what is below it.  The locks of the pool and of the
 * writer are taken inside it, so no thread reports a failure with one of them
 * held.
 */
#ifndef SNAP_SESSION_H
#define SNAP_SESSION_H

#include <pthread.h>

#include "fault.h"
#include "guest.h"
#include "watchdog.h"
#include "writer.h"

struct device_state {
	char name[SNAP_NAME_MAX + 1];
	void *data;
	size_t length;
};

struct snap {
	struct snap_options opts; /* complete, output is our own copy */
	int stream_flags; /* of output_fd when the handle was made, before a
			   * descriptor of ours could get its number */
	struct guest guest;
	struct writer *writer;
	struct fault_thread *fault;
	struct watchdog *watchdog;
	pthread_t thread;
	bool thread_started;
	struct device_state *states;
	uint32_t state_count;
	size_t state_bytes;
	uint8_t id[16];
	uint64_t created_unix_ns;
	uint64_t begin_ns; /* monotonic; 0 before session_begin() */
	int notify_fd;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum snap_state state;
	bool go;	/* the session's thread may run */
	bool beginning; /* session_prearm() or session_begin() is arming */
	int err;	/* the first failure */
	enum snap_failure failure;
	char text[ERROR_TEXT_MAX];
	uint64_t prepare_ns, pause_ns, end_ns;
	/* Of parts that are freed at the end. */
	struct bufpool_waits waits;
	uint64_t zero_pages, bytes_written, write_calls, write_syscalls;
};

/** snap_prepare(), snap_prearm(), snap_begin() and snap_destroy() of libsnap.h. */
int session_prepare(struct snap *s);
int session_prearm(struct snap *s);
int session_begin(struct snap *s);
void session_destroy(struct snap *s);

/** A handle that nothing was prepared for has no thread that would see its
 * cancellation: end it here.  Otherwise does nothing. */
void session_end_new(struct snap *s);

/** Note the calling thread's failure @err, if it is the first, and make every
 * thread give up.  Any thread; never blocks. */
void session_fail(struct snap *s, int err);

/** Any thread. */
enum snap_state session_state(struct snap *s);

/** Refresh the figures of parts that are still there.  s->lock is held. */
void session_collect(struct snap *s);

#endif

// SPDX-License-Identifier: MIT
/*
 * The bounded pool of buffers between the guest and the disk.
 *
 * How it works.  Two free lists under one lock: ordinary buffers, which the
 * sweep and the fault thread share, and the compressor's outputs.  The sweep
 * sleeps on a condition until there is more than the reserve and no fault
 * waits.  The fault thread never sleeps here: it is told by an eventfd.  When
 * bufpool_try_get_fault() finds nothing it leaves fault_wants behind under the
 * lock, so a buffer that comes back before the thread is in poll() still
 * signals it.
 */
#include "bufpool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "error.h"
#include "sys.h"

/* The sweep needs one buffer beyond the reserve, or it would never move. */
#define ORDINARY_MIN 2u

struct bufpool {
	uint8_t *memory; /* header room and payload of every buffer */
	size_t memory_len;
	struct buf *bufs;
	size_t bufs_len;
	unsigned ordinary; /* buffers of each kind in all */
	unsigned outputs;
	unsigned reserve; /* ordinary ones that the sweep may not take */
	int fd;

	pthread_mutex_t lock; /* all below; a leaf: nothing is locked inside */
	pthread_cond_t sweep;
	pthread_cond_t output;
	struct buf *free_ordinary;
	struct buf *free_outputs;
	unsigned free_ordinary_count;
	unsigned free_output_count;
	bool closed;
	bool fault_wants; /* a try_get_fault() came away with nothing */
	unsigned faults_waiting;
	uint64_t faults_since; /* when faults_waiting left 0 */
	struct bufpool_waits waits;
};

/* Copies of a fork() would share these pages, and our next write to each would
 * then be a copy; the child has no use for them. */
static int map_touched(void **out, size_t len, const char *what)
{
	int err = sys_mmap(out, len, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (err)
		return error_nomem(what);
	sys_madvise(*out, len, MADV_DONTFORK);
	sys_madvise(*out, len, MADV_HUGEPAGE);
	err = sys_madvise(*out, len, MADV_POPULATE_WRITE);
	if (err == -EINVAL) { /* before Linux 5.14 */
		for (size_t i = 0; i < len; i += PAGE_BYTES)
			((volatile uint8_t *)*out)[i] = 0;
		return 0;
	}
	if (!err)
		return 0;
	sys_munmap(*out, len);
	*out = NULL;
	return error_nomem(what);
}

static void push(struct bufpool *p, struct buf *b)
{
	struct buf **list = b->output ? &p->free_outputs : &p->free_ordinary;

	b->next = *list;
	*list = b;
	if (b->output)
		p->free_output_count++;
	else
		p->free_ordinary_count++;
}

static struct buf *pop_ordinary(struct bufpool *p)
{
	struct buf *b = p->free_ordinary;

	p->free_ordinary = b->next;
	p->free_ordinary_count--;
	b->next = NULL;
	return b;
}

static int map_buffers(struct bufpool *p)
{
	unsigned n = p->ordinary + p->outputs;
	void *memory, *bufs;
	int err;

	p->memory_len = n * BUF_ROOM;
	p->bufs_len = align_up(n * sizeof(struct buf), PAGE_BYTES);
	err = map_touched(&memory, p->memory_len, "the buffers (max_buffer)");
	if (err)
		return err;
	err = map_touched(&bufs, p->bufs_len, "the buffers (max_buffer)");
	if (err) {
		sys_munmap(memory, p->memory_len);
		return err;
	}
	p->memory = memory;
	p->bufs = bufs;
	for (unsigned i = n; i-- > 0;) {
		p->bufs[i].payload = p->memory + i * BUF_ROOM + BUF_HEADER_ROOM;
		p->bufs[i].output = i >= p->ordinary;
		push(p, &p->bufs[i]);
	}
	return 0;
}

int bufpool_create(struct bufpool **out, size_t max_bytes, unsigned outputs)
{
	unsigned n = (unsigned)(max_bytes / (BUF_ROOM + sizeof(struct buf)));
	struct bufpool *p;
	int err;

	if (n < ORDINARY_MIN + (outputs ? 1 : 0))
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "max_buffer of %zu bytes is too small: it "
				 "holds %u buffers of %zu",
				 max_bytes, n, BUF_ROOM);
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_nomem("the buffer pool");
	p->outputs = outputs < n / 2 ? outputs : n / 2;
	p->ordinary = n - p->outputs;
	p->reserve = p->ordinary / 4 ? p->ordinary / 4 : 1;
	p->fd = sys_eventfd(0);
	if (p->fd < 0) {
		err = error_sys(p->fd, SNAP_FAILURE_INTERNAL,
				"cannot make an eventfd");
		goto free_pool;
	}
	err = map_buffers(p);
	if (err)
		goto close_fd;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->sweep, NULL);
	pthread_cond_init(&p->output, NULL);
	*out = p;
	return 0;

close_fd:
	sys_close(p->fd);
free_pool:
	free(p);
	return err;
}

void bufpool_destroy(struct bufpool *p)
{
	if (!p)
		return;
	pthread_cond_destroy(&p->output);
	pthread_cond_destroy(&p->sweep);
	pthread_mutex_destroy(&p->lock);
	sys_munmap(p->bufs, p->bufs_len);
	sys_munmap(p->memory, p->memory_len);
	sys_close(p->fd);
	free(p);
}

void bufpool_memory(const struct bufpool *p, void **addr, size_t *len)
{
	*addr = p->memory;
	*len = p->memory_len;
}

unsigned bufpool_count(const struct bufpool *p)
{
	return p->ordinary;
}

unsigned bufpool_free_count(struct bufpool *p)
{
	unsigned n;

	pthread_mutex_lock(&p->lock);
	n = p->free_ordinary_count;
	pthread_mutex_unlock(&p->lock);
	return n;
}

unsigned bufpool_lent(struct bufpool *p)
{
	unsigned lent;

	pthread_mutex_lock(&p->lock);
	lent = p->ordinary + p->outputs - p->free_ordinary_count -
	       p->free_output_count;
	pthread_mutex_unlock(&p->lock);
	return lent;
}

void bufpool_get_waits(struct bufpool *p, struct bufpool_waits *w)
{
	pthread_mutex_lock(&p->lock);
	*w = p->waits;
	if (p->faults_waiting)
		w->fault_ns += now_ns() - p->faults_since;
	pthread_mutex_unlock(&p->lock);
}

static bool sweep_may_take(const struct bufpool *p)
{
	return p->free_ordinary_count > p->reserve && !p->faults_waiting;
}

struct buf *bufpool_get_sweep(struct bufpool *p)
{
	struct buf *b = NULL;
	uint64_t since = 0;

	pthread_mutex_lock(&p->lock);
	while (!p->closed && !sweep_may_take(p)) {
		if (!since)
			since = now_ns();
		pthread_cond_wait(&p->sweep, &p->lock);
	}
	if (since)
		p->waits.sweep_ns += now_ns() - since;
	if (!p->closed)
		b = pop_ordinary(p);
	pthread_mutex_unlock(&p->lock);
	return b;
}

struct buf *bufpool_try_get_sweep(struct bufpool *p)
{
	struct buf *b = NULL;

	pthread_mutex_lock(&p->lock);
	if (!p->closed && sweep_may_take(p))
		b = pop_ordinary(p);
	pthread_mutex_unlock(&p->lock);
	return b;
}

struct buf *bufpool_try_get_fault(struct bufpool *p)
{
	struct buf *b = NULL;

	pthread_mutex_lock(&p->lock);
	if (!p->closed && p->free_ordinary)
		b = pop_ordinary(p);
	else
		p->fault_wants = true;
	pthread_mutex_unlock(&p->lock);
	return b;
}

int bufpool_fd(const struct bufpool *p)
{
	return p->fd;
}

void bufpool_fault_waiting(struct bufpool *p, int n)
{
	pthread_mutex_lock(&p->lock);
	assert(n > 0 || p->faults_waiting >= (unsigned)-n);
	if (n > 0) {
		if (!p->faults_waiting)
			p->faults_since = now_ns();
		p->waits.faults += (unsigned)n;
		p->faults_waiting += (unsigned)n;
	} else if (n < 0) {
		p->faults_waiting -= (unsigned)-n;
		if (!p->faults_waiting) {
			p->waits.fault_ns += now_ns() - p->faults_since;
			pthread_cond_broadcast(&p->sweep);
		}
	}
	pthread_mutex_unlock(&p->lock);
}

struct buf *bufpool_get_output(struct bufpool *p)
{
	struct buf *b = NULL;

	pthread_mutex_lock(&p->lock);
	assert(p->outputs);
	while (!p->closed && !p->free_outputs)
		pthread_cond_wait(&p->output, &p->lock);
	if (!p->closed) {
		b = p->free_outputs;
		p->free_outputs = b->next;
		p->free_output_count--;
		b->next = NULL;
	}
	pthread_mutex_unlock(&p->lock);
	return b;
}

/* The counter only has to be other than zero; it cannot overflow. */
static void signal_faults(struct bufpool *p)
{
	static const uint64_t one = 1;

	p->fault_wants = false;
	sys_write(p->fd, &one, sizeof(one));
}

void bufpool_put(struct bufpool *p, struct buf *b)
{
	b->payload_len = 0;
	b->extent_count = 0;
	b->frame = NULL;
	b->frame_len = 0;
	memset(&b->entry, 0, sizeof(b->entry));

	pthread_mutex_lock(&p->lock);
	push(p, b);
	if (b->output)
		pthread_cond_signal(&p->output);
	else if (sweep_may_take(p))
		pthread_cond_signal(&p->sweep);
	if (!b->output && (p->fault_wants || p->faults_waiting))
		signal_faults(p);
	pthread_mutex_unlock(&p->lock);
}

void bufpool_close(struct bufpool *p)
{
	pthread_mutex_lock(&p->lock);
	p->closed = true;
	pthread_cond_broadcast(&p->sweep);
	pthread_cond_broadcast(&p->output);
	signal_faults(p);
	pthread_mutex_unlock(&p->lock);
}

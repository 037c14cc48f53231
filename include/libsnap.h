/* SPDX-License-Identifier: MIT */
/*
 * libsnap - background snapshots of a running virtual machine's memory.
 *
 * For a moment the guest is paused and all its RAM is write-protected; then it
 * runs on while the pages are saved.  A write to a page that is not saved yet
 * traps, the page is copied to a buffer, unprotected, and the guest goes on.
 * The guest never waits for the disk or the compressor, and a snapshot is
 * exact or it failed.
 *
 * This header is the whole interface and reads top to bottom:
 *
 *   1  errors                    4  while it runs
 *   2  options and regions       5  statistics
 *   3  taking a snapshot         6  reading an image and restoring
 *
 * The shortest use:
 *
 *	struct snap *s;
 *	snap_create(&s, &(struct snap_options){ .size = sizeof(struct snap_options),
 *						.output = "guest.snap" });
 *	snap_add_region(s, &(struct snap_region){ .size = sizeof(struct snap_region),
 *						  .name = "ram", .addr = ram, .length = len });
 *	snap_prepare(s);	// the guest runs
 *	... pause the guest ...
 *	snap_begin(s);		// all RAM is protected when this returns
 *	... let the guest run ...
 *	snap_wait(s, -1);	// 0: guest.snap is complete, exact, on disk
 *	snap_destroy(s);
 *
 * Units: addresses and lengths are bytes, pages are 4096 bytes whatever backs
 * the memory, times carry their unit in the name.
 *
 * Threads: one handle may be used from several threads where a call says
 * "any thread"; all other calls on one handle must not overlap.  Different
 * handles are independent.  The library starts threads of its own with all
 * signals blocked, and owns no signal, never prints, never exits or aborts.
 *
 * Kernel facts are cited by commit or by file of the Linux source.
 */
#ifndef LIBSNAP_H
#define LIBSNAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SNAP_VERSION_MAJOR 0
#define SNAP_VERSION_MINOR 1
#define SNAP_VERSION_PATCH 0

#define SNAP_API __attribute__((visibility("default")))
#define SNAP_MUST_CHECK __attribute__((warn_unused_result))

/** Size in bytes of the page that all page counts of this library are in. */
#define SNAP_PAGE_SIZE 4096u

/** Longest name of a region or a device state, in bytes without the NUL. */
#define SNAP_NAME_MAX 63

/*
 * ---- 1. Errors -----------------------------------------------------------
 *
 * Every call that can fail returns 0 or a negative errno and leaves a text for
 * a person behind.
 */

/**
 * The text of this thread's last failed call: one sentence that names the
 * thing and, where there is one, the remedy.  Never NULL; empty when no call
 * of this thread has failed.  Owned by the library, valid until this thread's
 * next libsnap call.  Any thread.  Since 0.1.
 */
SNAP_API const char *snap_error_message(void);

/** The version of the library at run time, "MAJOR.MINOR.PATCH".  Static.
 * Any thread.  Since 0.1. */
SNAP_API const char *snap_version(void);

/** Whose fault a failure is; programs choose their exit code by it. */
enum snap_failure {
	SNAP_FAILURE_NONE = 0,	   /**< no failure */
	SNAP_FAILURE_INTERNAL = 1, /**< no memory, no threads, a kernel error */
	SNAP_FAILURE_USAGE = 2,	   /**< the caller's arguments or order */
	SNAP_FAILURE_REFUSED = 3,  /**< permission, unsupported or unsafe RAM */
	SNAP_FAILURE_GONE = 4,	   /**< the target process went away */
	SNAP_FAILURE_OUTPUT = 5,   /**< the image could not be written */
	SNAP_FAILURE_IMAGE = 6,	   /**< the image is damaged or incomplete */
	SNAP_FAILURE_CANCELLED = 7, /**< snap_cancel() */
	SNAP_FAILURE_LOST = 8,	    /**< the guest dropped RAM not saved yet */
};

/** The class of this thread's last failed call.  Any thread.  Since 0.1. */
SNAP_API enum snap_failure snap_error_failure(void);

/*
 * ---- 2. Options and regions ----------------------------------------------
 */

struct snap; /**< one snapshot: made, begun once, waited for, destroyed */

/** How the saved pages are stored. */
enum snap_compress {
	SNAP_COMPRESS_DEFAULT = 0, /**< what suits most: none */
	SNAP_COMPRESS_NONE = 1, /**< as they are; all-zero pages are elided */
	SNAP_COMPRESS_ZSTD = 2, /**< zstd, level from compress_level */
};

/** snap_options.flags */
enum snap_flags {
	/** Replace an existing output file, atomically and at the very end. */
	SNAP_OVERWRITE = 1u << 0,
	/** Do not reserve disk space before the pause.  The snapshot may then
	 * fail half-way for lack of space; without it, it fails before the
	 * guest is touched. */
	SNAP_NO_PREALLOCATE = 1u << 1,
	/** Write with pwrite() even where io_uring is available. */
	SNAP_NO_IO_URING = 1u << 2,
	/** Write through the page cache even where O_DIRECT is available. */
	SNAP_NO_DIRECT = 1u << 3,
};

/**
 * snap_options.allow: what snap_prepare() refuses to do with another process
 * unless it is told that it is all right.
 */
enum snap_hazard {
	/** The process has a VFIO device open, which writes to RAM unseen. */
	SNAP_HAZARD_VFIO = 1u << 0,
	/** RAM holds registered buffers of an io_uring, which are pinned. */
	SNAP_HAZARD_IO_URING = 1u << 1,
	/** Another process has RAM's file mapped writable (vhost-user). */
	SNAP_HAZARD_SHARED = 1u << 2,
	/** RAM is mergeable and ksmd runs. */
	SNAP_HAZARD_KSM = 1u << 3,
	/** The process has the output file mapped. */
	SNAP_HAZARD_OUTPUT = 1u << 4,
};

/**
 * Options of one snapshot.  Zero means the default everywhere, so set @size to
 * sizeof(struct snap_options), fill what you need and leave the rest.  The
 * struct only ever grows at its end; the library refuses with -E2BIG a tail
 * that it does not know and that is not zero.  Copied by snap_create().
 */
struct snap_options {
	size_t size; /**< sizeof(struct snap_options) */

	/** Path of the image.  It appears under this name complete or not at
	 * all.  NULL: @output_fd is used.  Must not exist unless
	 * SNAP_OVERWRITE. */
	const char *output;

	/** A pipe, socket or file to stream the image to, front to back, when
	 * @output is NULL.  Borrowed until snap_destroy(), never closed.  With
	 * both unset (@output NULL and @output_fd 0) the image is thrown away:
	 * the null sink of benchmarks. */
	int output_fd;

	enum snap_compress compress;
	int compress_level; /**< zstd: 1..19, negative = faster; 0 = 1 */

	/** Threads that test for zero, checksum and compress.  0: one a CPU
	 * this process may run on, 8 at most. */
	unsigned workers;

	/** Bytes of RAM for copies not written yet: the most memory that a
	 * snapshot takes beside 1 MiB a GiB of RAM and 8 MiB.  0: 64 MiB.
	 * At least 16 MiB, at most 1 GiB. */
	size_t max_buffer;

	/** Bytes a second that may be written.  0: no limit. */
	uint64_t bandwidth;

	/** OR of enum snap_flags. */
	unsigned flags;

	/** The process whose memory is saved.  0: this one.  Another one is
	 * attached to by snap_prepare(): its threads stand for a moment while
	 * one of them makes a userfaultfd, and again inside snap_begin().
	 * Nothing of ours stays in it.  Needs the right to trace it (the same
	 * user, or CAP_SYS_PTRACE), and Linux 6.4.  Since 0.1. */
	int pid;

	/** Milliseconds that a write of the guest may wait for us, which is
	 * when the output is slower than the guest writes.  After that the RAM
	 * is released and the snapshot fails with -ETIMEDOUT.  0: no limit.
	 * Since 0.1. */
	unsigned fault_limit_ms;

	/** OR of enum snap_hazard: go on in spite of them.  Since 0.1. */
	unsigned allow;

	/** How many of 100 pages are checksummed in the pause, chosen by
	 * chance, and compared with their copies: 0..100.  What was written to
	 * unseen fails the snapshot with -EILSEQ.  Makes the pause longer, some
	 * 2 us a page.  Since 0.1. */
	unsigned audit_percent;
};

/** A range of guest RAM. */
struct snap_region {
	size_t size; /**< sizeof(struct snap_region) */

	/** Name in the image, 1..SNAP_NAME_MAX bytes, unique.  NULL: "ramN".
	 * Copied. */
	const char *name;

	/** First byte, a multiple of the backing's page size.  An address of
	 * the process that is saved. */
	void *addr;

	/** Bytes, a multiple of the backing's page size, not 0. */
	size_t length;

	/** Where the guest sees it; kept in the image, not used otherwise. */
	uint64_t guest_addr;
};

/*
 * ---- 3. Taking a snapshot ------------------------------------------------
 */

/**
 * Make a handle.  Nothing is opened and no thread is started yet.
 *
 * @out: receives the handle, to be freed with snap_destroy(); untouched on
 *       failure.
 * @opts: may be NULL for the defaults (image thrown away).
 *
 * Returns 0, -EINVAL (an option out of its range, @opts->size too small),
 * -E2BIG (options from a newer header with a tail in use), -ENOMEM.
 * Any thread.  Since 0.1.
 */
SNAP_API SNAP_MUST_CHECK int snap_create(struct snap **out,
					 const struct snap_options *opts);

/**
 * Cancel what runs, wait until the guest's memory is released and the library
 * threads have ended, and free the handle.  NULL is fine.  An image that is
 * not complete is removed.  Since 0.1.
 */
SNAP_API void snap_destroy(struct snap *s);

/**
 * Add guest RAM.  Only the numbers are checked here; what backs the range is
 * checked by snap_prepare().
 *
 * Accepted: private anonymous memory, shared memory (memfd, shm, MAP_SHARED
 * anonymous) and hugetlb of 2 MiB pages.  Of another process also private
 * mappings of files, such as .data: they are copied inside the pause, and
 * together may take half of max_buffer.
 *
 * The library's own memory must not lie in a region: do not add the malloc
 * heap of the process that links libsnap.
 *
 * Returns 0, -EINVAL (unaligned, empty, wraps around, name too long or taken),
 * -EEXIST (overlaps a region), -EBUSY (after snap_prepare()), -ENOMEM.
 * Since 0.1.
 */
SNAP_API SNAP_MUST_CHECK int snap_add_region(struct snap *s,
					     const struct snap_region *region);

/**
 * Add the memory of the process @pid of the options, as it is mapped now.  Of
 * a process that runs a virtual machine (it has a KVM descriptor, or is QEMU)
 * its guest RAM: anonymous, memfd and hugetlb mappings of 32 MiB and more.  Of
 * any other one all its private writable memory.  What was added and why is
 * told by snap_get_region().
 *
 * Returns 0, -EINVAL (no @pid was set), -ENOENT (nothing was found), -ESRCH,
 * -EACCES, -EPERM (the process ended, or may not be looked at), -E2BIG (it has
 * mapped four times the machine's memory), -EBUSY (after snap_prepare()),
 * -ENOMEM.  Since 0.1.
 */
SNAP_API SNAP_MUST_CHECK int snap_add_ram(struct snap *s);

/** A region that was added. */
struct snap_region_info {
	size_t size; /**< sizeof(struct snap_region_info) */
	char name[SNAP_NAME_MAX + 1];
	uint64_t start;	 /**< address in its process */
	uint64_t length; /**< bytes */
	char why[128];	 /**< why snap_add_ram() took it; else empty */
};

/** Fill @info with region @index, in the order of adding; no more than
 * @info->size bytes of it.  Returns 0, -EINVAL (@info->size is 0), or -ENOENT
 * (there is no such region).  Not while a region is added.  Since 0.1. */
SNAP_API int snap_get_region(const struct snap *s, size_t index,
			     struct snap_region_info *info);

/**
 * Add a named blob that belongs to the same instant, such as vCPU registers.
 * To be called before snap_begin(), usually while the guest is paused.
 * @data is copied; @length may be 0 and is at most 1 GiB in all.
 *
 * Returns 0, -EINVAL (name empty, too long), -EEXIST (name taken), -EBUSY
 * (after snap_begin()), -E2BIG, -ENOMEM.  Since 0.1.
 */
SNAP_API SNAP_MUST_CHECK int snap_add_device_state(struct snap *s,
						   const char *name,
						   const void *data,
						   size_t length);

/**
 * Do all that can be done while the guest still runs: check every region, open
 * the output and reserve its space, make and register a userfaultfd, start the
 * threads.  Optional: snap_begin() does it when it was not called, and the
 * pause is then longer.
 *
 * Nothing is write-protected by this call.  When it fails nothing stays
 * registered, no file stays behind and the handle can only be destroyed.
 *
 * Returns 0 or
 *   -EPERM       userfaultfd for kernel faults is not allowed; the text says
 *                which of /dev/userfaultfd, the vm.unprivileged_userfaultfd
 *                sysctl or CAP_SYS_PTRACE would do (mm/userfaultfd.c,
 *                commit 2d5de004e009 for the device)
 *   -EOPNOTSUPP  this kernel has no write-protect mode for such memory
 *   -EFAULT      a region is not mapped throughout
 *   -EACCES      a region is not writable, or the output may not be written
 *   -EINVAL      no region; a region is file-backed or unaligned for its
 *                huge pages, or holds the library's own memory
 *   -EBUSY       a region is registered with another userfaultfd; called twice
 *   -EBADF       output_fd is not open, or not for writing
 *   -EEXIST      the output exists
 *   -EISDIR      the output is a directory
 *   -ENOSPC      the output's file system has not enough room
 *   -ENOMEM, -EMFILE, -EIO, or what open() gave.
 * and of another process, which runs on as before:
 *   -ESRCH       there is none, it ended (SNAP_FAILURE_GONE), is a zombie
 *   -EPERM       no right to trace it, or no userfaultfd may be made in it
 *   -EBUSY       it is traced already, the text names the tracer; or its RAM
 *                can change unseen, see enum snap_hazard
 *   -EINVAL      it is this process, or @pid is a thread's
 *   -ENOTSUP     a kernel thread or a 32-bit program
 *   -ETIMEDOUT   one of its threads does not stop.
 * All regions that are wrong are named in the text, one by one.  Since 0.1.
 */
SNAP_API SNAP_MUST_CHECK int snap_prepare(struct snap *s);

/**
 * Protect RAM beforehand, in slices, while the guest still runs, so that the
 * pause follows what the guest writes and not how much it has.  To be called
 * right before the pause.  Optional.
 *
 * A write to a page that is protected so early costs the guest one fault, which
 * copies nothing; snap_begin() protects the pages so written, and what this
 * call left alone: huge pages, which cost little in the pause, and memory that
 * the guest is dropping.  If snap_begin() does not follow soon, the pause grows
 * again with what the guest writes, to no more than it would have been.
 * Does what snap_prepare() does when that was not called.  Does nothing for
 * anonymous memory before Linux 6.4.
 *
 * Takes some 20 ms a GiB of 4 KiB pages.  When it fails everything is released.
 *
 * Returns 0, what snap_prepare() returns, or -EBUSY (after snap_begin()).
 * Since 0.1.
 */
SNAP_API SNAP_MUST_CHECK int snap_prearm(struct snap *s);

/**
 * The snapshot point.  To be called while no thread and no device writes to
 * the regions: the caller has paused the vCPUs and drained its I/O.  When it
 * returns 0 everything is protected and the guest may run.  When it fails
 * everything is released, and the guest may run as well.
 *
 * Another process is stopped by this call, and runs on when it returns,
 * whatever it returns.
 *
 * Takes about 10 ms a GiB of 4 KiB pages on two CPUs, less after snap_prearm(),
 * and 0.1 ms a GiB of huge pages.
 *
 * Returns 0, what snap_prepare() returns, -EBUSY (called twice), -EFAULT (a
 * region was unmapped since snap_prepare()), -ENOMEM.  Since 0.1.
 */
SNAP_API SNAP_MUST_CHECK int snap_begin(struct snap *s);

/*
 * ---- 4. While it runs ----------------------------------------------------
 */

/** Where a snapshot is in its life. */
enum snap_state {
	SNAP_STATE_NEW = 0,	 /**< created */
	SNAP_STATE_PREPARED = 1, /**< snap_prepare() done, nothing protected */
	SNAP_STATE_RUNNING = 2,	 /**< the guest runs, pages are being saved */
	SNAP_STATE_WRITING = 3, /**< all RAM is released; the rest is written */
	SNAP_STATE_COMPLETE = 4,  /**< the image is complete and on disk */
	SNAP_STATE_FAILED = 5,	  /**< ended; snap_status() says why */
	SNAP_STATE_CANCELLED = 6, /**< ended by snap_cancel() */
};

/** Where it is now.  Any thread.  Since 0.1. */
SNAP_API enum snap_state snap_state(const struct snap *s);

/**
 * A descriptor for poll(), epoll or any loop: it becomes readable (POLLIN)
 * when the state changes, and stays so until snap_process().  Owned by the
 * handle, valid until snap_destroy(); do not read or close it.  Any thread.
 * Since 0.1.
 */
SNAP_API int snap_fd(const struct snap *s);

/**
 * To be called when snap_fd() is readable: takes the notice away and returns
 * what snap_status() returns.  Never blocks.  Since 0.1.
 */
SNAP_API int snap_process(struct snap *s);

/**
 * 0: complete.  -EINPROGRESS: not ended yet (also before snap_begin()).
 * -ECANCELED: cancelled.  Anything else: the first failure, whose text is then
 * snap_error_message() of this thread and whose class snap_error_failure().
 * -ENODATA means that RAM was unmapped, moved or discarded before it could be
 * saved.  Any thread.  Since 0.1.
 */
SNAP_API int snap_status(struct snap *s);

/**
 * Wait for the end, @timeout_ms milliseconds at most, -1 for ever.  Returns
 * what snap_status() returns, so -EINPROGRESS is the time-out.  Any thread.
 * Since 0.1.
 */
SNAP_API int snap_wait(struct snap *s, int timeout_ms);

/**
 * Ask for the end: the guest's memory is released, then the output is removed
 * and the state becomes SNAP_STATE_CANCELLED.  Returns at once.  A snapshot
 * that has ended stays as it is.  Any thread; not from a signal handler.
 * Since 0.1.
 */
SNAP_API void snap_cancel(struct snap *s);

/*
 * ---- 5. Statistics -------------------------------------------------------
 */

/**
 * Figures of a snapshot, also while it runs.  Set @size before the call; the
 * library fills no more than that.  Page counts are 4 KiB pages.
 */
struct snap_stats {
	size_t size; /**< sizeof(struct snap_stats) */

	uint64_t pages_total;	 /**< of all regions */
	uint64_t pages_by_fault; /**< copied because the guest wrote to them */
	uint64_t pages_by_sweep; /**< copied in the background */
	uint64_t pages_in_pause; /**< copied while the guest stood still */
	uint64_t pages_absent;	 /**< never touched: known zero, not read */
	uint64_t pages_zero;	 /**< copied and found all zero */

	uint64_t faults; /**< messages read; several for a page are normal */
	uint64_t fault_p50_ns; /**< from a message's readability to its wake; */
	uint64_t fault_p99_ns; /**< an upper bound where messages queue up, */
	uint64_t fault_p999_ns; /**< as the kernel gives them no time */
	uint64_t fault_max_ns;

	uint64_t protect_ioctls;   /**< UFFDIO_WRITEPROTECT that protected */
	uint64_t unprotect_ioctls; /**< ... that unprotected, faults included */
	uint64_t unprotect_pages;  /**< pages in them */
	uint64_t
		unprotect_eagain; /**< repeats, because mappings were changing */
	uint64_t discards;	  /**< madvise() calls let go on after a save */

	uint64_t
		pool_wait_sweep_ns; /**< the sweep stood for want of a buffer */
	uint64_t pool_wait_fault_ns; /**< ... a faulting thread stood */
	uint64_t pool_wait_faults;   /**< how many faults had to wait so */

	uint64_t bytes_ram;	/**< length of all regions */
	uint64_t bytes_written; /**< of the image */
	uint64_t write_calls;	/**< writes given to the kernel */

	uint64_t pause_ns;    /**< inside snap_begin(), protection only */
	uint64_t prepare_ns;  /**< inside snap_prepare() */
	uint64_t duration_ns; /**< from snap_begin() to the end */
	uint64_t syscalls;    /**< made by the threads that save, in all */

	uint64_t attach_ns; /**< how long the threads of another process stood
				 for the userfaultfd.  Since 0.1 */
	uint64_t pages_audited; /**< compared, see audit_percent.  Since 0.1 */
	uint64_t fault_sum_ns;	/**< of all answered faults.  Since 0.1 */

	uint64_t early_faults;	/**< of @faults: between snap_prearm() and the
				 snapshot point.  Since 0.1 */
	uint64_t prearm_rounds; /**< walks over RAM by snap_prearm().  Since
				 0.1 */
	uint64_t pages_armed_in_pause; /**< protected by snap_begin().  Since
					0.1 */
};

/** Fill @st.  Returns 0 or -EINVAL (@st->size is 0).  Any thread.  Since 0.1. */
SNAP_API int snap_get_stats(struct snap *s, struct snap_stats *st);

/**
 * The faults' latencies as a histogram: @counts[i] is how many were answered
 * within @bounds_ns[i], to 3 %.  Any thread.  Since 0.1.
 */
SNAP_API void snap_count_faults(struct snap *s, const uint64_t *bounds_ns,
				uint64_t *counts, size_t n);

/**
 * The statistics and the status as one line of JSON, the same as snapd
 * --json prints.  NULL when there is no memory; otherwise to be freed with
 * free().  Any thread.  Since 0.1.
 */
SNAP_API char *snap_stats_json(struct snap *s);

/**
 * What this kernel can do, as one line of JSON, the same as snapctl probe
 * --json prints; each ability is tried.  NULL when there is no memory; otherwise
 * to be freed with free().  Any thread.  Since 0.1.
 */
SNAP_API char *snap_probe_json(void);

/*
 * ---- 6. Reading an image and restoring -----------------------------------
 *
 * An image is hostile input: every number is checked before it is used and
 * anything altered, cut or made up gives -EBADMSG and "damaged at ...", never
 * a crash.
 */

struct snap_image; /**< an open image; calls on one may run in parallel */

/** What an image says of itself. */
struct snap_image_info {
	size_t size;		  /**< sizeof(struct snap_image_info) */
	uint8_t snapshot_id[16];  /**< UUID, version 4 */
	uint64_t created_unix_ns; /**< the snapshot point, real time */
	uint32_t region_count;
	uint32_t device_state_count;
	uint32_t format_version;
	enum snap_compress compress;
	uint64_t pages_total, pages_data, pages_zero, pages_absent;
	uint64_t bytes_ram;  /**< of all regions */
	uint64_t bytes_file; /**< of the image */
	uint64_t frame_count;
};

/** A region as it was. */
struct snap_image_region {
	size_t size; /**< sizeof(struct snap_image_region) */
	char name[SNAP_NAME_MAX + 1];
	uint64_t start;	 /**< address in the process it was taken from */
	uint64_t length; /**< bytes */
	uint64_t guest_addr;
	uint32_t page_size; /**< of its backing */
};

/**
 * Open an image and read its tables; RAM is not read yet.
 * Returns 0, -EBADMSG (damaged or incomplete; the text says where), -ENOTSUP
 * (a newer format version), -ENOMEM, or what open() and read() gave.
 * Close with snap_image_close().  Any thread.  Since 0.1.
 */
SNAP_API SNAP_MUST_CHECK int snap_image_open(struct snap_image **out,
					     const char *path);

/** Close and free.  NULL is fine.  Since 0.1. */
SNAP_API void snap_image_close(struct snap_image *img);

/** Fill @info.  Returns 0 or -EINVAL (@info->size is 0).  Any thread. */
SNAP_API int snap_image_get_info(const struct snap_image *img,
				 struct snap_image_info *info);

/** Describe region @index.  Returns 0, -EINVAL, -ENOENT (no such region).
 * Any thread.  Since 0.1. */
SNAP_API int snap_image_get_region(const struct snap_image *img, uint32_t index,
				   struct snap_image_region *region);

/**
 * Device state @index: its name and bytes, owned by the image, valid until
 * snap_image_close().  Any of @name, @data, @length may be NULL.  Returns 0 or
 * -ENOENT.  Any thread.  Since 0.1.
 */
SNAP_API int snap_image_get_device_state(const struct snap_image *img,
					 uint32_t index, const char **name,
					 const void **data, size_t *length);

/** The same by name.  Returns 0 or -ENOENT.  Any thread.  Since 0.1. */
SNAP_API int snap_image_find_device_state(const struct snap_image *img,
					  const char *name, const void **data,
					  size_t *length);

/**
 * Read @length bytes of region @index at @offset into @buf; absent pages are
 * zero.  Any alignment.  A whole frame is read and checked for a single byte.
 * Returns 0, -EINVAL (outside the region), -ENOENT, -EBADMSG, -ENOMEM, -EIO.
 * Any thread.  Since 0.1.
 */
SNAP_API SNAP_MUST_CHECK int snap_image_read(struct snap_image *img,
					     uint32_t index, uint64_t offset,
					     void *buf, size_t length);

/** What a page of the image is. */
enum snap_page_kind {
	SNAP_PAGE_ABSENT = 0, /**< was never touched */
	SNAP_PAGE_ZERO = 1,   /**< was present and all zero */
	SNAP_PAGE_DATA = 2,   /**< its bytes are in a frame */
};

/**
 * The kind of page @page of region @index and how many pages from there have
 * the same.  For sparse copies.  Returns 0, -EINVAL, -ENOENT.  Any thread.
 * Since 0.1.
 */
SNAP_API int snap_image_page_kind(const struct snap_image *img, uint32_t index,
				  uint64_t page, enum snap_page_kind *kind,
				  uint64_t *count);

/**
 * Check every checksum and that every page is reachable exactly once, reading
 * front to back; @path "-" reads a stream from standard input.  Returns 0,
 * -EBADMSG and the first damaged place in the text, or what open() and read()
 * gave.  Any thread.  Since 0.1.
 */
SNAP_API SNAP_MUST_CHECK int snap_image_verify(const char *path);

/**
 * Load region @index into memory, in parallel.  @dest must be mapped and
 * writable for @length bytes, which must equal the region's length, at an
 * address that is a multiple of its backing's page size, and nobody may use it
 * meanwhile.  Whatever it held is gone afterwards: absent and zero pages come
 * back as holes where the backing can have holes.  On failure its contents are
 * undefined.
 *
 * @workers: threads; 0: one a CPU, 8 at most.
 *
 * Returns 0, -EINVAL, -ENOENT, -EFAULT (@dest is not mapped), -EBADMSG,
 * -ENOMEM, -EIO.  Since 0.1.
 */
SNAP_API SNAP_MUST_CHECK int snap_restore(struct snap_image *img,
					  uint32_t index, void *dest,
					  size_t length, unsigned workers);

#ifdef __cplusplus
}
#endif

#endif /* LIBSNAP_H */

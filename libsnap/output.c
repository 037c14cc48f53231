// SPDX-License-Identifier: MIT
/* A file that appears under its name complete or not at all. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "libsnap.h"
#include "sys.h"
#include "util/util.h"

#define CREATE_ATTEMPTS 16
/* Leaves room in NAME_MAX for the rest of the temporary name. */
#define BASENAME_KEPT 200

static int no_room(const struct output *o, int err, uint64_t need)
{
	struct statfs fs = {0};
	double available = 0;

	if (!sys_fstatfs(o->fd, &fs))
		available = (double)fs.f_bavail * (double)fs.f_bsize;
	return error_set(err, SNAP_FAILURE_OUTPUT,
			 "%s: not enough room on its file system%s: needs "
			 "%.1f MiB, free %.1f MiB",
			 o->path, err == -EDQUOT ? " (quota)" : "",
			 (double)need / (double)MIB, available / (double)MIB);
}

/* O_PATH looks at the name itself: a FIFO is not opened, a link not followed,
 * so a dangling link counts as taken, as it will for the rename. */
static int check_name(const struct output *o)
{
	int fd = sys_open(o->path, O_PATH | O_NOFOLLOW, 0);
	struct stat st;
	int err;

	if (fd == -ENOENT)
		return 0; /* free, or the directory is missing: see create */
	if (fd < 0)
		return error_sys(fd, SNAP_FAILURE_OUTPUT, "cannot look at %s",
				 o->path);
	err = sys_fstat(fd, &st);
	sys_close(fd);
	if (err)
		return error_sys(err, SNAP_FAILURE_OUTPUT, "cannot look at %s",
				 o->path);
	if (S_ISDIR(st.st_mode))
		return error_set(-EISDIR, SNAP_FAILURE_OUTPUT,
				 "%s is a directory: name a file in it",
				 o->path);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return error_set(-EINVAL, SNAP_FAILURE_OUTPUT,
				 "%s is not a regular file: open it and stream "
				 "the image to the descriptor (output_fd, or "
				 "\"-\" for standard output)",
				 o->path);
	if (!o->overwrite)
		return error_set(-EEXIST, SNAP_FAILURE_OUTPUT,
				 "%s exists: remove it, name another file or "
				 "ask for it to be overwritten",
				 o->path);
	return 0;
}

static int split_path(struct output *o)
{
	const char *slash = strrchr(o->path, '/');

	if (!o->path[0] || (slash && !slash[1]))
		return error_set(-EINVAL, SNAP_FAILURE_OUTPUT,
				 "\"%s\" does not name a file", o->path);
	if (!slash)
		o->directory = strdup(".");
	else if (slash == o->path)
		o->directory = strdup("/");
	else
		o->directory = strndup(o->path, (size_t)(slash - o->path));
	return o->directory ? 0 : error_nomem("the output's name");
}

/* O_EXCL makes the name ours; the number only has to be unlikely to be taken.
 */
static int set_temporary(struct output *o, unsigned attempt)
{
	const char *slash = strrchr(o->path, '/');
	const char *base = slash ? slash + 1 : o->path;
	uint64_t mixed = (now_ns() + attempt) * 0x9e3779b97f4a7c15u;

	free(o->temporary);
	if (asprintf(&o->temporary, "%s/.%.*s.%d.%08x.partial", o->directory,
		     BASENAME_KEPT, base, (int)getpid(),
		     (unsigned)(mixed >> 32)) < 0) {
		o->temporary = NULL;
		return error_nomem("the output's name");
	}
	return 0;
}

static void forget_temporary(struct output *o)
{
	free(o->temporary);
	o->temporary = NULL;
}

static int create_failed(const struct output *o, int err)
{
	if (err == -ENOENT)
		return error_set(err, SNAP_FAILURE_OUTPUT,
				 "cannot create %s: the directory %s does not "
				 "exist",
				 o->path, o->directory);
	return error_sys(err, SNAP_FAILURE_OUTPUT,
			 "cannot create a file in %s for %s", o->directory,
			 o->path);
}

/* An open with O_DIRECT that the file system refuses has created the file all
 * the same (do_dentry_open() in fs/open.c looks last). */
static int create_temporary(struct output *o)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
	int err;

	for (unsigned i = 0; i < CREATE_ATTEMPTS; i++) {
		err = set_temporary(o, i);
		if (err)
			return err;
		o->fd = sys_open(o->temporary,
				 flags | (o->direct ? O_DIRECT : 0), 0600);
		if (o->fd >= 0)
			return 0;
		if (o->fd == -EINVAL && o->direct) {
			sys_unlink(o->temporary);
			o->direct = false;
		} else if (o->fd != -EEXIST) {
			break;
		}
	}
	err = create_failed(o, o->fd);
	forget_temporary(o);
	return err;
}

static int reserve_space(struct output *o, uint64_t bytes)
{
	struct statfs fs;
	int err;

	do {
		err = sys_fallocate(o->fd, 0, 0, bytes);
	} while (err == -EINTR);
	if (err == -ENOSPC || err == -EDQUOT)
		return no_room(o, err, bytes);
	if (err == -EFBIG)
		return error_set(err, SNAP_FAILURE_OUTPUT,
				 "%s: its file system or RLIMIT_FSIZE allows "
				 "no file of %.1f MiB",
				 o->path, (double)bytes / (double)MIB);
	if (err && err != -EOPNOTSUPP)
		return error_sys(err, SNAP_FAILURE_OUTPUT,
				 "cannot reserve space for %s", o->path);
	if (err && !sys_fstatfs(o->fd, &fs) &&
	    (double)fs.f_bavail * (double)fs.f_bsize < (double)bytes)
		return no_room(o, -ENOSPC, bytes);
	return 0;
}

/* Some file systems accept the flag and refuse the writes, or want more than
 * 4096 bytes of alignment: try one, now rather than after the pause. */
static int try_direct(struct output *o)
{
	void *block;
	ssize_t n;

	if (!o->direct)
		return 0;
	if (posix_memalign(&block, PAGE_BYTES, PAGE_BYTES))
		return error_nomem("the output");
	memset(block, 0, PAGE_BYTES);
	n = sys_pwrite(o->fd, block, PAGE_BYTES, 0);
	free(block);
	if (n == -ENOSPC || n == -EDQUOT)
		return no_room(o, (int)n, PAGE_BYTES);
	if (n >= 0)
		return 0;
	if (n != -EINVAL && n != -EOPNOTSUPP)
		return error_sys((int)n, SNAP_FAILURE_OUTPUT, "cannot write %s",
				 o->path);
	sys_close(o->fd);
	o->direct = false;
	o->fd = sys_open(o->temporary, O_WRONLY | O_NOFOLLOW, 0);
	return o->fd < 0 ? create_failed(o, o->fd) : 0;
}

int output_create(struct output *o, const char *path, unsigned flags,
		  uint64_t reserve)
{
	int err;

	*o = (struct output){
		.path = strdup(path),
		.fd = -1,
		.direct = !(flags & SNAP_NO_DIRECT),
		.overwrite = flags & SNAP_OVERWRITE,
	};
	if (!o->path)
		return error_nomem("the output's name");
	err = split_path(o);
	if (!err)
		err = check_name(o);
	if (!err)
		err = create_temporary(o);
	if (!err && reserve && !(flags & SNAP_NO_PREALLOCATE))
		err = reserve_space(o, reserve);
	if (!err)
		err = try_direct(o);
	if (err)
		output_release(o);
	return err;
}

int output_sync(struct output *o, uint64_t length)
{
	int err = sys_ftruncate(o->fd, length);

	if (err)
		return error_sys(err, SNAP_FAILURE_OUTPUT,
				 "cannot cut %s to its length", o->path);
	err = sys_fsync(o->fd);
	if (err)
		return error_sys(err, SNAP_FAILURE_OUTPUT,
				 "cannot bring %s to the disk", o->path);
	return 0;
}

static int give_name(struct output *o)
{
	int err;

	if (o->overwrite)
		return sys_rename(o->temporary, o->path);
	err = sys_rename_noreplace(o->temporary, o->path);
	if (err != -EINVAL && err != -ENOSYS)
		return err;
	/* A link takes no name that exists either. */
	err = sys_link(o->temporary, o->path);
	if (!err)
		sys_unlink(o->temporary);
	return err;
}

/* A directory that may be written but not read cannot be synced by us, and some
 * file systems have no fsync for directories: neither is a failure. */
static int sync_directory(const struct output *o)
{
	int fd = sys_open(o->directory, O_RDONLY | O_DIRECTORY, 0);
	int err;

	if (fd < 0)
		return fd == -EACCES ? 0 : fd;
	err = sys_fsync(fd);
	sys_close(fd);
	return err == -EINVAL ? 0 : err;
}

int output_publish(struct output *o)
{
	int err = give_name(o);

	if (err == -EEXIST)
		return error_set(err, SNAP_FAILURE_OUTPUT,
				 "%s was created by somebody else meanwhile",
				 o->path);
	if (err)
		return error_sys(err, SNAP_FAILURE_OUTPUT, "cannot name %s",
				 o->path);
	forget_temporary(o);
	err = sync_directory(o);
	if (!err)
		return 0;
	/* The name may not outlive a crash: do not claim that it does. */
	sys_unlink(o->path);
	return error_sys(err, SNAP_FAILURE_OUTPUT,
			 "cannot bring the directory %s to the disk",
			 o->directory);
}

void output_release(struct output *o)
{
	if (o->temporary)
		sys_unlink(o->temporary);
	if (o->fd >= 0)
		sys_close(o->fd);
	forget_temporary(o);
	free(o->directory);
	free(o->path);
	*o = (struct output){.fd = -1};
}

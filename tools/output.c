// SPDX-License-Identifier: MIT
/* A file that appears under its name complete or not at all. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BASENAME_KEPT 200 /* NAME_MAX is 255 */

static volatile sig_atomic_t cancelled;

static void on_signal(int number)
{
	(void)number;
	cancelled = 1;
}

bool output_cancelled(void)
{
	return cancelled != 0;
}

/* From now on a signal must not leave the temporary file behind. */
static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction old, ours = {.sa_handler = on_signal};
	size_t i;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!sigaction(numbers[i], NULL, &old) &&
		    old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &ours, NULL);
	/* A write beyond the limit of file sizes shall give EFBIG. */
	ours.sa_handler = SIG_IGN;
	sigaction(SIGXFSZ, &ours, NULL);
}

static enum exit_code check_path(const struct output *o)
{
	struct stat st;

	if (lstat(o->path, &st))
		return EXIT_DONE;
	if (!o->replace)
		return fail(EXIT_OUTPUT,
			    "%s exists: remove it, name another file or use "
			    "--force",
			    o->path);
	if (!S_ISREG(st.st_mode))
		return fail(EXIT_OUTPUT,
			    "%s is not a regular file and will not be replaced",
			    o->path);
	return EXIT_DONE;
}

static int directory_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (int)(slash - path) + 1 : 0;
}

enum exit_code output_open(struct output *o, const char *path, bool replace)
{
	int dir = directory_length(path);
	enum exit_code code;

	*o = (struct output){.path = path, .replace = replace, .fd = -1};
	if (!path[dir])
		return fail(EXIT_OUTPUT, "\"%s\" does not name a file", path);
	code = check_path(o);
	if (code)
		return code;
	if (asprintf(&o->temporary, "%.*s.%.*s.XXXXXX.partial", dir, path,
		     BASENAME_KEPT, path + dir) < 0) {
		o->temporary = NULL;
		return fail(EXIT_FAILED, "out of memory");
	}
	catch_signals();
	o->fd = mkostemps(o->temporary, (int)strlen(".partial"), O_CLOEXEC);
	if (o->fd < 0) {
		code = fail(EXIT_OUTPUT, "cannot create %s: %s", path,
			    strerror(errno));
		free(o->temporary);
		o->temporary = NULL;
	}
	return code;
}

enum exit_code output_write(struct output *o, const void *data, size_t len,
			    uint64_t offset)
{
	const char *from = data;
	ssize_t n;

	while (len) {
		n = pwrite(o->fd, from, len, (off_t)offset);
		if (n < 0 && errno == EINTR && !output_cancelled())
			continue;
		if (output_cancelled())
			return fail(EXIT_CANCELLED, "cancelled by a signal");
		if (n < 0)
			return fail(EXIT_OUTPUT, "cannot write %s: %s", o->path,
				    strerror(errno));
		from += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return EXIT_DONE;
}

enum exit_code output_set_length(struct output *o, uint64_t len)
{
	if (!ftruncate(o->fd, (off_t)len))
		return EXIT_DONE;
	return fail(EXIT_OUTPUT, "cannot make %s %llu bytes long: %s", o->path,
		    (unsigned long long)len, strerror(errno));
}

/* rename() that replaces only where that was asked for. */
static int give_name(const struct output *o)
{
	if (o->replace)
		return rename(o->temporary, o->path);
	if (!renameat2(AT_FDCWD, o->temporary, AT_FDCWD, o->path,
		       RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL)
		return -1;
	/* The file system has no such rename: a link does not replace. */
	if (link(o->temporary, o->path))
		return -1;
	return unlink(o->temporary);
}

static enum exit_code sync_directory(const struct output *o)
{
	int dir = directory_length(o->path), fd;
	char *name = dir ? strndup(o->path, (size_t)dir) : strdup(".");
	enum exit_code code = EXIT_DONE;

	fd = name ? open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	/* EINVAL: a file system that has no such thing. */
	if (fd < 0 || (fsync(fd) && errno != EINVAL))
		code = fail(EXIT_OUTPUT, "cannot sync the directory of %s: %s",
			    o->path, strerror(errno));
	if (fd >= 0)
		close(fd);
	free(name);
	return code;
}

static enum exit_code publish(struct output *o)
{
	enum exit_code code;

	if (fsync(o->fd))
		return fail(EXIT_OUTPUT, "cannot sync %s: %s", o->path,
			    strerror(errno));
	if (output_cancelled())
		return fail(EXIT_CANCELLED, "cancelled by a signal");
	if (give_name(o))
		return fail(EXIT_OUTPUT, "cannot give %s its name: %s", o->path,
			    strerror(errno));
	free(o->temporary);
	o->temporary = NULL;
	code = sync_directory(o);
	if (code)
		unlink(o->path);
	return code;
}

enum exit_code output_finish(struct output *o, enum exit_code code)
{
	if (!code)
		code = publish(o);
	if (o->temporary) {
		unlink(o->temporary);
		free(o->temporary);
		o->temporary = NULL;
	}
	if (o->fd >= 0)
		close(o->fd);
	return code;
}

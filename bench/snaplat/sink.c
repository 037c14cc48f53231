// SPDX-License-Identifier: MIT
/* Where the images of all modes go, and what they write there alike. */
#include "mode.h"

#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int sink_open(const struct shot *s, char path[512])
{
	int fd;

	path[0] = '\0';
	if (!s->dir) {
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	} else {
		snprintf(path, 512, "%s/snaplat-image.tmp", s->dir);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	}
	if (fd < 0)
		die("cannot open %s: %s", s->dir ? path : "/dev/null",
		    strerror(errno));
	return fd;
}

void sink_close(const struct shot *s, int fd, const char *path)
{
	if (s->dir && fsync(fd))
		die("fsync: %s", strerror(errno));
	close(fd);
	if (path[0])
		unlink(path);
}

void sink_write(int fd, const void *buf, size_t len)
{
	const uint8_t *at = buf;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("cannot write the image: %s", strerror(errno));
		at += n;
		len -= (size_t)n;
	}
}

/* The guest may write meanwhile: mode page looks at protected pages only, but
 * the sanitizer cannot know. */
__attribute__((no_sanitize("thread"))) bool sink_is_zero(const void *buf,
							 size_t len)
{
	const uint64_t *words = buf;
	uint64_t any = 0;

	for (size_t i = 0; i < len / 8; i++)
		any |= words[i];
	return !any;
}

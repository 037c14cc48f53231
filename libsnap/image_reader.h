/* SPDX-License-Identifier: MIT */
/* Bytes of an image, from a file or a stream, and how to complain of them. */
#ifndef SNAP_IMAGE_READER_H
#define SNAP_IMAGE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Where the next byte comes from. */
struct image_reader {
	int fd;
	const char *path; /* for texts; borrowed */
	bool stream;	  /* read front to back, its length unknown */
	uint64_t at;	  /* offset of the next byte */
	uint64_t size;	  /* of the file; not for a stream */
};

/** "PATH: damaged at byte @at: why"; returns -EBADMSG. */
int image_damaged(const char *path, uint64_t at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** "PATH: damaged at byte @at: incomplete: why", where @at is where it ends. */
int image_incomplete(const char *path, uint64_t at, const char *why);

/** Read exactly @len bytes of @fd at @offset.  Returns 0, -EBADMSG when the
 * file ends before, or what pread() gave, with the text set. */
int image_pread(int fd, const char *path, void *buf, size_t len,
		uint64_t offset);

/** The next @len bytes, or an error as above. */
int image_reader_get(struct image_reader *r, void *buf, size_t len);

/** The same into new memory, to be freed; *@out is untouched on failure.  A
 * length that the file does not have is refused, and a stream's memory grows
 * with what has arrived, so a made-up length takes no memory. */
int image_reader_get_new(struct image_reader *r, uint64_t len, void **out);

/** Whether a stream or file ends here.  Returns 0, -EBADMSG if it goes on. */
int image_reader_end(struct image_reader *r);

/** Whether @len bytes are all zero. */
bool image_is_zero(const void *p, size_t len);

#endif

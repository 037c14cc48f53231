/* SPDX-License-Identifier: MIT */
/*
 * The bytes of an image: pure encode, decode and validate; no I/O, no malloc.
 * docs/format.md says it in words.
 *
 *   head | frame ... frame | index | footer
 *
 * The head is a prologue, a region table, a table of device states and their
 * bytes.  Each part starts at a multiple of FORMAT_ALIGN and is padded with
 * zeros to the next; all numbers are little endian; all checksums are XXH3-64.
 *
 * The format_put_*() functions write whole parts into zeroed or fresh memory
 * of the size that their format_*_size() tells.  The format_get_*() functions
 * take bytes from a hostile file; they return NULL when all is well, otherwise
 * a static text that says what is wrong.
 */
#ifndef SNAP_FORMAT_H
#define SNAP_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FORMAT_ALIGN 4096u
#define FORMAT_VERSION 1u
#define FORMAT_NAME_ROOM 64u /* names are padded with NULs, the last one too */
#define FORMAT_HEAD_MAX (64u << 20) /* tables, without device-state bytes */
#define FORMAT_STATES_MAX ((uint64_t)1 << 30)

#define FRAME_EXTENTS_MAX 1016u	 /* fits BUF_HEADER_ROOM with the fixed part */
#define FRAME_RAW_MAX (2u << 20) /* bytes of RAM in a frame */

enum frame_kind {
	FRAME_ABSENT = 0, /* never touched: zero, no bytes */
	FRAME_ZERO = 1,	  /* all zero, no bytes */
	FRAME_DATA = 2,	  /* bytes in the payload */
};

enum frame_codec {
	FRAME_CODEC_NONE = 0,
	FRAME_CODEC_ZSTD = 1,
};

/** A run of pages of one kind; 16 bytes in the file. */
struct frame_extent {
	uint64_t first_page; /* within its region */
	uint32_t count;	     /* pages, not 0 */
	uint16_t region;
	uint16_t kind; /* enum frame_kind */
};

/** What the index says of a frame; 32 bytes in the file. */
struct index_entry {
	uint64_t offset;	  /* in the file */
	uint64_t length;	  /* padded, header and payload */
	uint64_t header_checksum; /* ties the frame's header to the index */
	uint32_t pages_data;
	uint32_t pages_zero; /* (absent ones follow from the extents) */
};

struct format_region {
	char name[FORMAT_NAME_ROOM];
	uint64_t start, length, guest_addr;
	uint32_t page_size;
};

struct format_state {
	char name[FORMAT_NAME_ROOM];
	uint64_t length;
	uint64_t checksum; /* of the bytes */
	uint64_t offset;   /* of the bytes, from the start of the head */
	const void *data;  /* only for format_put_head() */
};

struct format_head {
	uint8_t snapshot_id[16];
	uint64_t created_unix_ns;
	uint32_t version;  /* filled by format_get_prologue() */
	uint32_t compress; /* enum snap_compress, for information */
	uint32_t region_count, state_count;
	uint64_t table_length; /* prologue and tables, before padding */
	uint64_t head_length;  /* with the states' bytes, padded */
	uint64_t checksum;     /* of the first table_length bytes */
};

/** Bytes of a head; sets the two lengths in @h and the offsets in @states. */
size_t format_head_size(struct format_head *h, struct format_state *states);

/** Write it, after format_head_size(). */
void format_put_head(void *dst, const struct format_head *h,
		     const struct format_region *regions,
		     struct format_state *states);

/** The first FORMAT_ALIGN bytes: lengths are bounded, nothing is trusted yet.
 * @version is set even when it is unknown. */
const char *format_get_prologue(const void *src, struct format_head *h);

/** The checksum over the first h->table_length bytes at @src and the tables'
 * own sense. */
const char *format_check_tables(const void *src, const struct format_head *h);

/** After format_check_tables(). */
void format_get_region(const void *src, const struct format_head *h, uint32_t i,
		       struct format_region *out);
void format_get_state(const void *src, const struct format_head *h, uint32_t i,
		      struct format_state *out);

struct format_frame {
	uint64_t snapshot_tag; /* first 8 bytes of the id: whose frame it is */
	uint32_t codec;
	uint32_t extent_count;
	uint64_t raw_len;    /* bytes of all FRAME_DATA pages */
	uint64_t stored_len; /* bytes in the file */
	uint64_t payload_checksum;
	uint64_t header_checksum; /* filled by put and get */
};

/** The tag of an id. */
uint64_t format_tag(const uint8_t id[16]);

/** Padded bytes of a frame's header; the payload follows. */
size_t format_frame_header_room(uint32_t extent_count);

/** Padded bytes of a frame. */
size_t format_frame_size(uint32_t extent_count, uint64_t stored_len);

/** Write a padded frame header with its checksum, which is also returned. */
uint64_t format_put_frame(void *dst, const struct format_frame *f,
			  const struct frame_extent *extents);

/** The fixed part alone, from 64 bytes at @src: tells how long the header is;
 * bounded, not yet trusted. */
#define FORMAT_FRAME_FIXED 64u
const char *format_get_frame_fixed(const void *src, struct format_frame *f);

/** The whole header of format_frame_header_room() bytes: checksum, kinds,
 * sums.  @extents has room for FRAME_EXTENTS_MAX. */
const char *format_get_frame(const void *src, struct format_frame *f,
			     struct frame_extent *extents);

/** Whether these bytes start a frame, the index, or the footer. */
bool format_is_frame(const void *src);
bool format_is_index(const void *src);
bool format_is_footer(const void *src);

struct format_totals {
	uint64_t pages_total, pages_data, pages_zero, pages_absent;
};

/** Padded bytes of an index. */
size_t format_index_size(uint64_t entries);

/** Write the index, padding included; returns the checksum for the footer. */
uint64_t format_put_index(void *dst, const struct index_entry *entries,
			  uint64_t count, const struct format_totals *totals);

/** How many entries, from the first 64 bytes: bounded by @length. */
const char *format_get_index_count(const void *src, uint64_t length,
				   uint64_t *count);

/** Check the whole of @length bytes against @checksum and get the totals. */
const char *format_get_index(const void *src, uint64_t length,
			     uint64_t checksum, struct format_totals *totals);
void format_get_entry(const void *src, uint64_t i, struct index_entry *out);

struct format_footer {
	uint64_t snapshot_tag;
	uint64_t index_offset, index_length, index_checksum;
	uint64_t image_length; /* footer included */
};

#define FORMAT_FOOTER_SIZE FORMAT_ALIGN
void format_put_footer(void *dst, const struct format_footer *f);
const char *format_get_footer(const void *src, struct format_footer *f);

/** XXH3-64. */
uint64_t format_checksum(const void *p, size_t len);

#endif

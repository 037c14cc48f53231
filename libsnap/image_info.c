// SPDX-License-Identifier: MIT
/* What an open image says of itself: totals, regions, device states. */
#include <errno.h>
#include <string.h>

#include "error.h"
#include "image.h"
#include "util/util.h"

/* Fill a caller's sized struct, which may be of an older or newer header.  The
 * size that it came with stays in it. */
static int fill(void *dst, size_t size, void *src, size_t known)
{
	if (!size)
		return error_set(-EINVAL, SNAP_FAILURE_USAGE,
				 "the size member of the struct is not set");
	memcpy(src, &size, sizeof(size));
	memcpy(dst, src, min_u64(size, known));
	return 0;
}

int image_check_region(const struct snap_image *img, uint32_t index)
{
	if (index < img->head.fixed.region_count)
		return 0;
	return error_set(-ENOENT, SNAP_FAILURE_USAGE,
			 "%s has no region %u; it has %u", img->path, index,
			 img->head.fixed.region_count);
}

int snap_image_get_info(const struct snap_image *img,
			struct snap_image_info *info)
{
	const struct format_head *h = &img->head.fixed;
	const struct format_totals *t = &img->extents.totals;
	struct snap_image_info all = {
		.created_unix_ns = h->created_unix_ns,
		.region_count = h->region_count,
		.device_state_count = h->state_count,
		.format_version = h->version,
		.compress = (enum snap_compress)h->compress,
		.pages_total = t->pages_total,
		.pages_data = t->pages_data,
		.pages_zero = t->pages_zero,
		.pages_absent = t->pages_absent,
		.bytes_ram = img->head.pages_total << PAGE_SHIFT,
		.bytes_file = img->size,
		.frame_count = img->frame_count,
	};

	memcpy(all.snapshot_id, h->snapshot_id, sizeof(all.snapshot_id));
	return fill(info, info->size, &all, sizeof(all));
}

int snap_image_get_region(const struct snap_image *img, uint32_t index,
			  struct snap_image_region *region)
{
	const struct format_region *r;
	struct snap_image_region all = {0};
	int err = image_check_region(img, index);

	if (err)
		return err;
	r = &img->head.regions[index];
	memcpy(all.name, r->name, sizeof(all.name));
	all.start = r->start;
	all.length = r->length;
	all.guest_addr = r->guest_addr;
	all.page_size = r->page_size;
	return fill(region, region->size, &all, sizeof(all));
}

_Static_assert(SNAP_NAME_MAX + 1 == FORMAT_NAME_ROOM,
	       "names have the same room in the header and in the file");

int snap_image_get_device_state(const struct snap_image *img, uint32_t index,
				const char **name, const void **data,
				size_t *length)
{
	const struct format_state *s;

	if (index >= img->head.fixed.state_count)
		return error_set(-ENOENT, SNAP_FAILURE_USAGE,
				 "%s has no device state %u; it has %u",
				 img->path, index, img->head.fixed.state_count);
	s = &img->head.states[index];
	if (name)
		*name = s->name;
	if (data)
		*data = s->data;
	if (length)
		*length = s->length;
	return 0;
}

int snap_image_find_device_state(const struct snap_image *img, const char *name,
				 const void **data, size_t *length)
{
	uint32_t i;

	for (i = 0; i < img->head.fixed.state_count; i++)
		if (!strcmp(img->head.states[i].name, name))
			return snap_image_get_device_state(img, i, NULL, data,
							   length);
	return error_set(-ENOENT, SNAP_FAILURE_USAGE,
			 "%s has no device state named %s", img->path, name);
}

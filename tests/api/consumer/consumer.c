// SPDX-License-Identifier: MIT
// Uses every part of the library that needs no permission.
#include <errno.h>
#include <libsnap.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	struct snap_options opts = {.size = sizeof(opts)};
	struct snap_region ram = {.size = sizeof(ram), .length = 1};
	struct snap_image *img;
	struct snap *s;
	char *json;

	if (snap_create(&s, &opts) < 0)
		return 1;
	if (snap_add_region(s, &ram) != -EINVAL || !*snap_error_message())
		return 2;
	json = snap_stats_json(s);
	if (!json)
		return 3;
	free(json);
	snap_destroy(s);
	if (snap_image_open(&img, "/nonexistent") != -ENOENT)
		return 4;
	printf("libsnap %s\n", snap_version());
	return 0;
}

// SPDX-License-Identifier: MIT
/*
 * The output file: full, in the way, replaced, and what it says of itself.
 *
 * How it works.  The full file system is a small tmpfs, mounted in a mount
 * namespace of this program alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/scene.h"

#define MB ((size_t)1 << 20)

static char mount_point[] = "/tmp/snap-full-XXXXXX";
static const char *cannot_mount;

static int mount_small(void **state)
{
	(void)state;
	if (!mkdtemp(mount_point))
		return -1;
	if (unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", mount_point, "tmpfs", 0, "size=20m") < 0)
		cannot_mount = "mounting a tmpfs needs root";
	return 0;
}

static int unmount_small(void **state)
{
	(void)state;
	if (!cannot_mount)
		umount(mount_point);
	return rmdir(mount_point);
}

static const struct scene_config full = {
	.name = "full", .threads = 2, .nap_us = 50};
static const struct scene_config full_late = {
	.name = "full_late",
	.threads = 2,
	.nap_us = 50,
	.options.flags = SNAP_NO_PREALLOCATE,
};
static const struct scene_config full_late_plain = {
	.name = "full_late_plain",
	.kind = RAM_THP,
	.threads = 2,
	.nap_us = 50,
	.options.flags =
		SNAP_NO_PREALLOCATE | SNAP_NO_IO_URING | SNAP_NO_DIRECT,
};

/* Its directory is on the small file system. */
static void open_small(struct scene *sc, const struct scene_config *cfg)
{
	char *tmp = getenv("TMPDIR");

	if (!cannot_mount)
		setenv("TMPDIR", mount_point, 1);
	scene_open(sc, cfg);
	if (cannot_mount) {
		scene_close(sc);
		scene_skip(cannot_mount);
	}
	if (tmp)
		setenv("TMPDIR", tmp, 1);
	else
		unsetenv("TMPDIR");
}

static struct snap *make_snap(struct scene *sc, const char *path,
			      unsigned flags)
{
	struct snap_options opts = {
		.size = sizeof(opts), .output = path, .flags = flags};
	struct snap_region r = {
		.size = sizeof(r), .addr = sc->ram.addr, .length = sc->ram.len};
	struct snap *s;

	assert_int_equal(snap_create(&s, &opts), 0);
	assert_int_equal(snap_add_region(s, &r), 0);
	return s;
}

static void full_disk_is_found_before_the_pause(void **state)
{
	struct proc_range range;
	char path[SCENE_PATH_MAX];
	struct scene sc;
	struct snap *s;

	open_small(&sc, *state);
	snprintf(path, sizeof(path), "%s/x.snap", sc.dir);
	s = make_snap(&sc, path, 0);
	assert_int_equal(snap_prepare(s), -ENOSPC);
	assert_non_null(strstr(snap_error_message(), path));
	assert_int_equal(snap_error_failure(), SNAP_FAILURE_OUTPUT);
	proc_range(sc.ram.addr, sc.ram.len, &range);
	assert_int_equal(range.uffd_mappings, 0);
	assert_int_equal(scene_files(&sc), 0);
	snap_destroy(s);
	scene_close(&sc);
}

static void full_disk_in_the_window_releases_the_guest(void **state)
{
	struct scene sc;

	open_small(&sc, *state);
	scene_prepare(&sc);
	scene_begin(&sc);
	scene_finish_failed(&sc, -ENOSPC, SNAP_FAILURE_OUTPUT);
	scene_close(&sc);
}

/* ---- replacing ---- */

static const struct scene_config small = {
	.name = "small", .ram_len = 8 * MB, .threads = 1, .nap_us = 50};

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static bool has_text(const char *path, const char *text)
{
	char line[80] = "";
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	return strcmp(line, text) == 0;
}

static void overwriting_happens_at_the_very_end(void **state)
{
	char path[SCENE_PATH_MAX];
	struct scene sc;
	struct snap *s;

	scene_open(&sc, *state);
	snprintf(path, sizeof(path), "%s/x.snap", sc.dir);
	write_text(path, "precious");
	s = make_snap(&sc, path, SNAP_OVERWRITE);
	assert_int_equal(snap_prepare(s), 0);
	assert_true(has_text(path, "precious"));
	assert_int_equal(snap_begin(s), 0);
	assert_int_equal(snap_wait(s, 30000), 0);
	snap_destroy(s);
	assert_int_equal(snap_image_verify(path), 0);
	assert_int_equal(scene_files(&sc), 1);
	unlink(path);
	scene_close(&sc);
}

static void cancelling_leaves_the_old_file(void **state)
{
	char path[SCENE_PATH_MAX];
	struct scene sc;
	struct snap *s;

	scene_open(&sc, *state);
	snprintf(path, sizeof(path), "%s/x.snap", sc.dir);
	write_text(path, "precious");
	s = make_snap(&sc, path, SNAP_OVERWRITE);
	assert_int_equal(snap_prepare(s), 0);
	snap_cancel(s);
	snap_destroy(s);
	assert_true(has_text(path, "precious"));
	assert_int_equal(scene_files(&sc), 1);
	unlink(path);
	scene_close(&sc);
}

/* Without SNAP_OVERWRITE a file that came meanwhile is not replaced. */
static void file_that_appears_meanwhile_is_kept(void **state)
{
	char path[SCENE_PATH_MAX];
	struct scene sc;
	struct snap *s;

	scene_open(&sc, *state);
	snprintf(path, sizeof(path), "%s/x.snap", sc.dir);
	s = make_snap(&sc, path, 0);
	assert_int_equal(snap_prepare(s), 0);
	write_text(path, "precious");
	assert_int_equal(snap_begin(s), 0);
	assert_int_equal(snap_wait(s, 30000), -EEXIST);
	assert_int_equal(snap_error_failure(), SNAP_FAILURE_OUTPUT);
	snap_destroy(s);
	assert_true(has_text(path, "precious"));
	assert_int_equal(scene_files(&sc), 1);
	unlink(path);
	scene_close(&sc);
}

/* ---- device states and JSON ---- */

static void device_states_come_back(void **state)
{
	char path[SCENE_PATH_MAX];
	struct snap_image *img;
	const void *data;
	struct scene sc;
	struct snap *s;
	char *big = malloc(3 * MB);
	size_t len;

	assert_non_null(big);
	memset(big, 0x42, 3 * MB);
	scene_open(&sc, *state);
	snprintf(path, sizeof(path), "%s/x.snap", sc.dir);
	s = make_snap(&sc, path, 0);
	assert_int_equal(snap_add_device_state(s, "vcpu0", "regs", 4), 0);
	assert_int_equal(snap_prepare(s), 0);
	assert_int_equal(snap_add_device_state(s, "big", big, 3 * MB), 0);
	assert_int_equal(snap_add_device_state(s, "empty", NULL, 0), 0);
	assert_int_equal(snap_begin(s), 0);
	assert_int_equal(snap_wait(s, 30000), 0);
	snap_destroy(s);
	assert_int_equal(snap_image_open(&img, path), 0);
	assert_int_equal(snap_image_find_device_state(img, "big", &data, &len),
			 0);
	assert_int_equal(len, 3 * MB);
	assert_memory_equal(data, big, len);
	assert_int_equal(
		snap_image_find_device_state(img, "vcpu0", &data, &len), 0);
	assert_int_equal(len, 4);
	assert_memory_equal(data, "regs", 4);
	assert_int_equal(
		snap_image_find_device_state(img, "empty", &data, &len), 0);
	assert_int_equal(len, 0);
	snap_image_close(img);
	unlink(path);
	free(big);
	scene_close(&sc);
}

static json_int_t field(json_t *root, const char *group, const char *name)
{
	json_t *v = group ? json_object_get(root, group) : root;

	v = json_object_get(v, name);
	if (!json_is_number(v))
		fail_msg("no number %s.%s", group ? group : "", name);
	return (json_int_t)json_number_value(v);
}

static void check_json(const char *text, const struct snap_stats *st)
{
	json_t *root = json_loads(text, 0, NULL);

	assert_non_null(root);
	assert_null(strchr(text, '\n'));
	assert_string_equal(json_string_value(json_object_get(root, "status")),
			    "complete");
	assert_true(json_is_null(json_object_get(root, "error")));
	assert_int_equal(
		strlen(json_string_value(json_object_get(root, "snapshot_id"))),
		36);
	assert_int_equal(field(root, NULL, "pause_us"), st->pause_ns / 1000);
	assert_int_equal(field(root, NULL, "duration_ms"),
			 st->duration_ns / 1000000);
	assert_int_equal(field(root, "pages", "total"), st->pages_total);
	assert_int_equal(field(root, "pages", "zero"), st->pages_zero);
	assert_int_equal(field(root, "pages", "absent"), st->pages_absent);
	assert_int_equal(field(root, "pages", "by_fault"), st->pages_by_fault);
	assert_int_equal(field(root, "pages", "by_sweep"), st->pages_by_sweep);
	assert_int_equal(field(root, "pages", "in_pause"), st->pages_in_pause);
	assert_int_equal(field(root, NULL, "faults"), st->faults);
	field(root, "fault_us", "p50");
	field(root, "fault_us", "p99");
	field(root, "fault_us", "p999");
	field(root, "fault_us", "max");
	assert_int_equal(field(root, "unprotect", "ioctls"),
			 st->unprotect_ioctls);
	assert_int_equal(field(root, "unprotect", "pages"),
			 st->unprotect_pages);
	assert_int_equal(field(root, "bytes", "ram"), st->bytes_ram);
	assert_int_equal(field(root, "bytes", "written"), st->bytes_written);
	json_decref(root);
}

static void json_has_what_the_contract_says(void **state)
{
	struct snap_stats st = {.size = sizeof(st)};
	char path[SCENE_PATH_MAX];
	struct stat file;
	struct scene sc;
	struct snap *s;
	char *text;

	scene_open(&sc, *state);
	snprintf(path, sizeof(path), "%s/x.snap", sc.dir);
	s = make_snap(&sc, path, 0);
	scene_nap_ms(5);
	assert_int_equal(snap_begin(s), 0);
	assert_int_equal(snap_wait(s, 30000), 0);
	assert_int_equal(snap_get_stats(s, &st), 0);
	assert_int_equal(stat(path, &file), 0);
	assert_int_equal(file.st_size, st.bytes_written);
	text = snap_stats_json(s);
	assert_non_null(text);
	check_json(text, &st);
	free(text);
	snap_destroy(s);
	unlink(path);
	scene_close(&sc);
}

/* ---- restore ---- */

static void take(struct scene *sc, const char *path)
{
	struct mutator_counts at;
	struct snap *s = make_snap(sc, path, 0);

	assert_int_equal(snap_prepare(s), 0);
	assert_int_equal(mutator_pause(sc->mutator, &at), 0);
	assert_int_equal(snap_begin(s), 0);
	mutator_resume(sc->mutator);
	assert_int_equal(snap_wait(s, 30000), 0);
	snap_destroy(s);
	scene_model_to(sc, &at);
}

static void restore_gives_the_instant_and_its_holes(void **state)
{
	const struct scene_config *cfg = *state;
	char path[SCENE_PATH_MAX];
	struct snap_image_info info = {.size = sizeof(info)};
	struct snap_image *img;
	struct scene sc;
	struct ram to;

	scene_open(&sc, cfg);
	snprintf(path, sizeof(path), "%s/x.snap", sc.dir);
	take(&sc, path);
	assert_int_equal(ram_make(&to, cfg->kind, sc.ram.len), 0);
	memset(to.addr, 0xee, to.len);
	assert_int_equal(snap_image_open(&img, path), 0);
	snap_image_get_info(img, &info);
	assert_int_equal(snap_restore(img, 0, to.addr, to.len, 2), 0);
	if (cfg->kind != RAM_THP)
		assert_int_equal(ram_absent_pages(&to, 0, to.len),
				 info.pages_absent + info.pages_zero);
	assert_true(scene_same(&sc, "restored RAM", 0, to.addr, to.len));
	snap_image_close(img);
	ram_free(&to);
	unlink(path);
	scene_close(&sc);
}

static const struct scene_config holes = {
	.name = "holes", .fill = FILL_HALF, .ram_len = 16 * MB};
static const struct scene_config memfd_holes = {.name = "memfd_holes",
						.kind = RAM_MEMFD,
						.fill = FILL_HALF,
						.ram_len = 16 * MB};
static const struct scene_config thp_holes = {.name = "thp_holes",
					      .kind = RAM_THP,
					      .fill = FILL_HUGE,
					      .ram_len = 16 * MB};

#define ON(test, cfg)                                                          \
	{                                                                      \
#test "_" #cfg, test, NULL, NULL, (void *)&cfg                 \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(full_disk_is_found_before_the_pause, full),
		ON(full_disk_in_the_window_releases_the_guest, full_late),
		ON(full_disk_in_the_window_releases_the_guest, full_late_plain),
		ON(overwriting_happens_at_the_very_end, small),
		ON(cancelling_leaves_the_old_file, small),
		ON(file_that_appears_meanwhile_is_kept, small),
		ON(device_states_come_back, small),
		ON(json_has_what_the_contract_says, small),
		ON(restore_gives_the_instant_and_its_holes, holes),
		ON(restore_gives_the_instant_and_its_holes, memfd_holes),
		ON(restore_gives_the_instant_and_its_holes, thp_holes),
	};

	return scene_exit_code(cmocka_run_group_tests_name(
		"output", tests, mount_small, unmount_small));
}

#!/bin/sh
# SPDX-License-Identifier: MIT
# snapctl info, verify and export.  usage: test_snapctl.sh BIN-DIRECTORY CASE
set -eu

bin=$1
case=$2
# shellcheck source=tests/functional/expect.sh
. "$(dirname "$0")/expect.sh"

snapctl=$bin/snapctl
image=$dir/guest.snap

undo()
{
	[ ! -d "$dir/small" ] || umount "$dir/small" 2>/dev/null || true
}

make_sample()
{
	"$bin/make_image" sample "$image" "$dir/ram.raw"
}

# silent COMMAND...: it succeeds and has nothing to say.
silent()
{
	echo "> $*"
	"$@" >"$dir/out" 2>&1 || die "exit code $?"
	[ ! -s "$dir/out" ] || die 'it has something to say'
}

# Nothing in $dir but what is named.
only()
{
	# shellcheck disable=SC2012 # the test made the names
	left=$(ls -A "$dir" | tr '\n' ' ')
	[ "$left" = "$* " ] || die "in the directory: $left"
}

# flip FILE OFFSET: invert a byte.
flip()
{
	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	# shellcheck disable=SC2059
	printf "$(printf '\\%03o' $((255 - byte)))" |
		dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

case_usage()
{
	make_sample
	expect 2 usage "$snapctl"
	expect 0 'snapctl export' "$snapctl" --help
	expect 0 'snapctl [0-9]' "$snapctl" --version
	expect 2 'no command frobnicate' "$snapctl" frobnicate
	for command in info verify export; do
		expect 0 "usage: snapctl $command" "$snapctl" $command --help
		expect 2 "usage: snapctl $command" "$snapctl" $command
		expect 2 "usage: snapctl $command" "$snapctl" $command --what
		expect 2 "usage: snapctl $command" "$snapctl" $command a b c
	done
	expect 2 'usage: snapctl export' "$snapctl" export "$image" \
		"$dir/x" --region ram --device-state cpu
	expect 1 'No such file' "$snapctl" info "$dir/none"
	expect 1 'No such file' "$snapctl" verify "$dir/none"
	expect 1 'No such file' "$snapctl" export "$dir/none" "$dir/x"
	expect 2 'is a directory' "$snapctl" info "$dir"
	mkfifo "$dir/fifo"
	expect 2 'not a regular file' "$snapctl" info "$dir/fifo"
}

case_info()
{
	make_sample
	expect 0 'pages, 38 with data, 9 zero, 1018 absent' \
		"$snapctl" info "$image"
	grep -q '^region 1 *tiny: 0.0 MiB at 0x' "$dir/out" || die 'no region'
	grep -q '^state 0 *cpu: 5000 bytes$' "$dir/out" || die 'no state'
	grep -q '^snapshot *5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a$' "$dir/out" ||
		die 'no id'
	grep -q '^taken *2023-11-14T22:13:20.000000000Z$' "$dir/out" ||
		die 'no time'
	expect 0 '^{"complete":true,' "$snapctl" info --json "$image"
	for part in '"snapshot_id":"5a5a5a5a-5a5a-' \
		'"created":"2023-11-14T22:13:20.000000000Z"' \
		'"regions":\[{"name":"ram","start":4294967296,"length":262144,' \
		'"page_size":4096}' \
		'"device_state":\[{"name":"cpu","length":5000},' \
		'"data":38,"zero":9,"absent":1018}' \
		"\"bytes\":{\"ram\":4362240,\"file\":$(stat -c %s "$image")}"; do
		grep -q -- "$part" "$dir/out" || die "no $part"
	done
	# Names are hostile, too: no escape sequence reaches a terminal.
	"$bin/make_image" odd "$image"
	expect 0 '\\x1b\[31m\\xff' "$snapctl" info "$image"
	expect 0 '"name":"\\\\x1b\[31m\\\\xff"' "$snapctl" info --json "$image"
	expect 2 'has no region ram; it has \\x1b\[31m\\xff' \
		"$snapctl" export "$image" "$dir/x" --region ram
	"$snapctl" info "$image" >/dev/full 2>"$dir/out" && rc=0 || rc=$?
	[ "$rc" -eq 5 ] || die "exit code $rc when stdout is full"
}

case_verify()
{
	make_sample
	expect 0 'every checksum matches' "$snapctl" verify "$image"
	# shellcheck disable=SC2002 # a pipe, not a file, is what it is about
	cat "$image" | expect 0 '^standard input: complete' \
		"$snapctl" verify -
	cp "$image" "$dir/whole"
	# Headers, tables, payloads, padding, index and footer.
	size=$(stat -c %s "$image")
	at=0
	while [ "$at" -lt "$size" ]; do
		flip "$image" "$at"
		expect 6 "damaged at byte" "$snapctl" verify "$image"
		flip "$image" "$at"
		at=$((at + 4096 + 64))
	done
	cmp "$image" "$dir/whole" || die 'the test did not undo its damage'
}

case_cut()
{
	make_sample
	size=$(stat -c %s "$image")
	at=$((size - 4096))
	while [ "$at" -ge 0 ]; do
		truncate -s "$at" "$image"
		expect 6 'damaged at byte' "$snapctl" verify "$image"
		expect 6 'damaged at byte' "$snapctl" info "$image"
		expect 6 '"complete":false' "$snapctl" info --json "$image"
		expect 6 'damaged at byte' "$snapctl" export "$image" \
			"$dir/x" --region ram
		at=$((at - 8192))
	done
	only guest.snap out ram.raw
}

case_export()
{
	make_sample
	expect 2 'several regions.*: ram, tiny, hole$' \
		"$snapctl" export "$image" "$dir/x"
	expect 2 'has no region 3; it has ram, tiny, hole$' \
		"$snapctl" export "$image" "$dir/x" --region 3
	only guest.snap out ram.raw
	silent "$snapctl" export "$image" "$dir/x" --region ram
	cmp "$dir/x" "$dir/ram.raw" || die 'other RAM'
	[ "$(stat -c %a "$dir/x")" = 600 ] || die 'others may read it'
	silent "$snapctl" export --region 0 "$image" "$dir/y"
	cmp "$dir/y" "$dir/ram.raw" || die 'other RAM'
	silent "$snapctl" export -r 2 "$image" "$dir/hole"
	[ "$(stat -c %s/%b "$dir/hole")" = 4096000/0 ] || die 'no hole'
	[ "$(($(stat -c '%b * %B' "$dir/x")))" -lt 262144 ] ||
		die 'RAM is not sparse'
	(cd "$dir" && silent "$snapctl" export -r 1 guest.snap tiny)
	[ "$(stat -c %s "$dir/tiny")" = 4096 ] || die 'no page'
	only guest.snap hole out ram.raw tiny x y
}

case_device_state()
{
	make_sample
	silent "$snapctl" export "$image" --device-state cpu "$dir/cpu"
	[ "$(tr -d r <"$dir/cpu" | wc -c)/$(wc -c <"$dir/cpu")" = 0/5000 ] ||
		die 'other state'
	silent "$snapctl" export "$image" -d none "$dir/none"
	[ "$(stat -c %s "$dir/none")" = 0 ] || die 'not empty'
	expect 2 'has no device state named gpu' \
		"$snapctl" export "$image" -d gpu "$dir/gpu"
	only cpu guest.snap none out ram.raw
}

case_exists()
{
	make_sample
	echo precious >"$dir/x"
	expect 5 'x exists: .*--force' \
		"$snapctl" export "$image" "$dir/x" -r 0
	[ "$(cat "$dir/x")" = precious ] || die 'it was replaced'
	silent "$snapctl" export "$image" "$dir/x" -r 0 --force
	cmp "$dir/x" "$dir/ram.raw" || die 'other RAM'
	expect 2 'is the image itself' \
		"$snapctl" export "$image" "$image" -r 0 --force
	mkdir "$dir/d"
	expect 5 'd is not a regular file' \
		"$snapctl" export "$image" "$dir/d" -r 0 --force
	ln -s x "$dir/link"
	expect 5 'link is not a regular file' \
		"$snapctl" export "$image" "$dir/link" -r 0 -f
	expect 5 'does not name a file' \
		"$snapctl" export "$image" "$dir/d/" -r 0
	expect 5 'No such file' "$snapctl" export "$image" "$dir/no/x" -r 0
	expect 0 complete "$snapctl" verify "$image"
	only d guest.snap link out ram.raw x
}

# Altered RAM is found out while it is exported.
case_damaged()
{
	make_sample
	# Behind the head (tables, a state of two pages) and a frame's header.
	flip "$image" $((4 * 4096 + 100))
	expect 0 '^snapshot' "$snapctl" info "$image"
	expect 6 'damaged at byte 16384' \
		"$snapctl" export "$image" "$dir/x" -r 0
	only guest.snap out ram.raw
}

case_full()
{
	make_sample
	mkdir "$dir/small"
	mount -t tmpfs -o size=64k none "$dir/small" 2>"$dir/out" ||
		skip 'this user may not mount a file system'
	expect 5 'No space left' "$snapctl" export "$image" "$dir/small/x" -r 0
	[ -z "$(ls -A "$dir/small")" ] || die 'something stays behind'
	expect 5 'File too large' sh -c 'ulimit -f 8; exec "$@"' sh \
		"$snapctl" export "$image" "$dir/x" -r 0
	umount "$dir/small"
	rmdir "$dir/small"
	only guest.snap out ram.raw
}

case_cancel()
{
	"$bin/make_image" big "$image"
	rc=0
	# It takes some 50 ms: no sleep, and the CPU is ours first.
	nice -n 19 "$snapctl" export "$image" "$dir/x" >"$dir/out" 2>&1 &
	pid=$!
	set -- "$dir"/.x.*.partial
	while kill -0 "$pid" 2>/dev/null && [ ! -e "$1" ]; do
		set -- "$dir"/.x.*.partial
	done
	kill -TERM "$pid" || die 'it was over too early'
	wait "$pid" || rc=$?
	[ "$rc" -eq 7 ] || die "exit code $rc instead of 7"
	grep -q 'cancelled by a signal' "$dir/out" || die 'does not say so'
	only guest.snap out
}

case_probe()
{
	expect 0 'write-protecting anonymous memory' "$snapctl" probe
	for field in '"perm_upgrade":"unknown"' '"wp_unpopulated":' \
		'"pagemap_scan":' '"io_uring":' '"hugetlb":'; do
		expect 0 "$field" "$snapctl" probe --json
	done
	expect 2 'usage: snapctl probe' "$snapctl" probe --what
	expect 2 'usage: snapctl probe' "$snapctl" probe more
}

case $case in
usage | info | verify | cut | export | device_state | exists | damaged | full \
	| cancel | probe) "case_$case" ;;
*)
	echo "no such case: $case"
	exit 2
	;;
esac

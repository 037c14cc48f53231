#!/bin/sh
# SPDX-License-Identifier: MIT
# snapd --pid.  usage: test_snapd.sh BIN-DIRECTORY CASE
set -eu

bin=$1
case=$2
# shellcheck source=tests/functional/expect.sh
. "$(dirname "$0")/expect.sh"

snapd=$bin/snapd
target=
saver=

undo()
{
	for pid in $target $saver; do
		kill -9 "$pid" 2>/dev/null || true
	done
	[ ! -d "$dir/small" ] || umount "$dir/small" 2>/dev/null || true
}

start_target()
{
	sh -c 'while sleep 0.05; do :; done' &
	target=$!
	sleep 0.2
	"$snapd" --pid "$target" --output "$dir/try" >"$dir/why" 2>&1 ||
		skip "$(cat "$dir/why")"
	rm "$dir/try"
}

# The target does what it did, and nobody traces it.
healthy()
{
	kill -0 "$target" || die 'the target has ended'
	grep -q 'TracerPid:[[:space:]]*0$' "/proc/$target/status" ||
		die 'the target is traced'
	[ "$(awk '/^State/ { print $2 }' "/proc/$target/status")" != t ] ||
		die 'the target stands'
	# No mapping has a userfaultfd's flag any more.
	! grep -q '^VmFlags:.* u[mwi] ' "/proc/$target/smaps" ||
		die 'a mapping is still registered'
}

# refused CODE TEXT OPTION...: and no file, and the target runs on.
refused()
{
	code=$1 text=$2
	shift 2
	expect "$code" "$text" "$snapd" "$@"
	[ ! -e "$dir/x.snap" ] || die 'there is a file'
}

case_usage()
{
	x=$dir/x.snap
	expect 0 'usage: snapd' "$snapd" --help
	expect 0 '^snapd [0-9]' "$snapd" --version
	refused 2 'pid is missing' --output "$x"
	refused 2 'output is missing' --pid 1
	refused 2 'unrecognized' --pid 1 --output "$x" --frobnicate
	for bad in '--pid 0' '--pid x' '--pid -4' '--pid 1x' '--range 1-2' \
		'--range 0x1000-0x1000' '--range 0x2000-0x1000' \
		'--range 0x1001-0x2000' '--range 0x1000' '--compress gzip' \
		'--compress zstd:0' '--compress zstd:20' '--workers 0' \
		'--workers 65' '--max-buffer 0' '--max-buffer 1X' \
		'--bandwidth 99999999999T' '--fault-limit -1' \
		'--progress often' '--force luck' '--log-level loud'; do
		# shellcheck disable=SC2086 # an option and its value
		refused 2 'give' --pid 1 --output "$x" $bad
	done
	refused 2 'go together' --pid 1 --output "$x" --pause-cmd true
	refused 2 'by itself' --pid 1 --output "$x" --qmp y --state-cmd true
	refused 2 'takes neither' --pid 1 --listen "$dir/s"
	expect 2 '"status":"failed"' "$snapd" --json --pid x
}

# The first number of field $1 in the report.
number()
{
	grep -o "\"$1\":[0-9]*" "$dir/report" | head -n 1 | cut -d : -f 2
}

case_json()
{
	start_target
	"$snapd" --pid "$target" --output "$dir/x.snap" --json \
		>"$dir/report" 2>"$dir/out" || die 'it failed'
	[ "$(wc -l <"$dir/report")" -eq 1 ] || die 'more than one line'
	for field in status error snapshot_id pause_us attach_us duration_ms \
		pages total zero absent by_fault by_sweep in_pause faults \
		fault_us p50 p99 p999 max unprotect ioctls bytes ram written \
		kernel perm_upgrade; do
		grep -q "\"$field\":" "$dir/report" || die "no field $field"
	done
	[ "$(number total)" -eq $(($(number by_fault) + $(number by_sweep) + \
		$(number in_pause) + $(number absent))) ] ||
		die 'the pages do not add up'
	grep -q 'stack' "$dir/out" || die 'it does not say what it picked'
	expect 0 complete "$bin/snapctl" verify "$dir/x.snap"
	# --json goes aside for an image on standard output.
	"$snapd" --pid "$target" --output - --json >"$dir/y.snap" \
		2>"$dir/report" || die 'it failed'
	grep -q '"status":"complete"' "$dir/report" || die 'no report'
	expect 0 complete "$bin/snapctl" verify "$dir/y.snap"
	healthy
}

case_range()
{
	start_target
	# The stack.
	range=$(awk '/\[stack\]/ { split($1, a, "-");
		print "0x" a[1] "-0x" a[2] }' "/proc/$target/maps")
	expect 0 complete "$snapd" --pid "$target" --output "$dir/y.snap" \
		--range "$range" --json
	expect 0 "RAM" "$bin/snapctl" info "$dir/y.snap"
	refused 3 'not mapped' --pid "$target" --output "$dir/x.snap" \
		--range 0x1000-0x2000
	refused 2 overlaps --pid "$target" --output "$dir/x.snap" \
		--range "$range" --range "$range"
	healthy
}

case_refused()
{
	start_target
	x=$dir/x.snap
	refused 4 'no process' --pid 4194303 --output "$x"
	refused 3 '' --pid 2 --output "$x"
	echo mine >"$dir/mine"
	expect 5 exists "$snapd" --pid "$target" --output "$dir/mine"
	[ "$(cat "$dir/mine")" = mine ] || die 'the file was changed'
	refused 5 'is a directory' --pid "$target" --output "$dir"
	refused 5 '' --pid "$target" --output "$dir/no/where"
	refused 3 'cannot be connected' --pid "$target" --output "$x" \
		--qmp "$dir/nobody"
	healthy
}

case_hooks()
{
	start_target
	# shellcheck disable=SC2016 # for the other shell
	expect 0 complete "$snapd" --pid "$target" --output "$dir/y.snap" --json \
		--pause-cmd 'echo "$SNAPD_PID" >'"$dir/paused" \
		--state-cmd 'printf state-of-it' \
		--resume-cmd "touch $dir/resumed"
	[ "$(cat "$dir/paused")" = "$target" ] || die 'no SNAPD_PID'
	[ -e "$dir/resumed" ] || die 'it was not resumed'
	"$bin/snapctl" export "$dir/y.snap" --device-state state "$dir/state"
	[ "$(cat "$dir/state")" = state-of-it ] || die 'another state'
	rm "$dir/resumed"
	refused 1 'false" failed' --pid "$target" --output "$dir/x.snap" \
		--pause-cmd false --resume-cmd "touch $dir/resumed"
	[ -e "$dir/resumed" ] || die 'it was not resumed'
	healthy
}

case_cancel()
{
	start_target
	"$snapd" --pid "$target" --output "$dir/x.snap" --bandwidth 8K \
		--fault-limit 0 --progress plain 2>"$dir/out" &
	saver=$!
	# A line of progress: the snapshot has begun.
	while ! grep -q 'pages left' "$dir/out"; do
		kill -0 "$saver" || die 'it was over too early'
		sleep 0.05
	done
	kill -INT "$saver"
	rc=0
	wait "$saver" || rc=$?
	saver=
	[ "$rc" -eq 7 ] || die "exit code $rc instead of 7"
	[ ! -e "$dir/x.snap" ] || die 'there is a file'
	healthy
	# And of a target that is killed.
	"$snapd" --pid "$target" --output "$dir/x.snap" --bandwidth 8K \
		--fault-limit 0 --progress plain 2>"$dir/out" &
	saver=$!
	while ! grep -q 'pages left' "$dir/out"; do
		kill -0 "$saver" || die 'it was over too early'
		sleep 0.05
	done
	kill -9 "$target"
	rc=0
	wait "$saver" || rc=$?
	saver=
	# All may have been saved, and only the writing have been slow.
	[ "$rc" -eq 4 ] || [ "$rc" -eq 0 ] || die "exit code $rc"
	target=
}

case_full()
{
	start_target
	mkdir "$dir/small"
	mount -t tmpfs -o size=64k none "$dir/small" 2>"$dir/out" ||
		skip 'this user may not mount a file system'
	expect 5 'room' "$snapd" --pid "$target" --output "$dir/small/x"
	[ -z "$(ls -A "$dir/small")" ] || die 'something stays behind'
	umount "$dir/small"
	healthy
}

case_unprivileged()
{
	start_target
	[ "$(id -u)" -eq 0 ] || skip 'only root can become somebody else'
	chmod 755 "$dir"
	expect 3 '' setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$snapd" --pid "$target" --output -
	healthy
}

case $case in
usage | json | range | refused | hooks | cancel | full | unprivileged)
	"case_$case"
	;;
*)
	echo "no such case: $case"
	exit 2
	;;
esac

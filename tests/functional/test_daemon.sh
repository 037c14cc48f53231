#!/bin/sh
# SPDX-License-Identifier: MIT
# snapd --listen and snapctl --socket.  usage: test_daemon.sh BIN-DIRECTORY CASE
set -eu

bin=$1
case=$2
# shellcheck source=tests/functional/expect.sh
. "$(dirname "$0")/expect.sh"

daemon=
target=
socket=$dir/socket

undo()
{
	for pid in $daemon $target; do
		kill -9 "$pid" 2>/dev/null || true
	done
}

start_daemon()
{
	"$bin/snapd" --listen "$socket" 2>"$dir/log" &
	daemon=$!
	while ! ctl list >/dev/null 2>&1; do
		kill -0 "$daemon" || die "$(cat "$dir/log")"
		sleep 0.02
	done
}

start_target()
{
	sh -c 'while sleep 0.05; do :; done' &
	target=$!
	sleep 0.2
}

ctl()
{
	"$bin/snapctl" --socket "$socket" "$@"
}

# start NAME OPTION...: begin a snapshot of the target, its id in $id.
start()
{
	name=$1
	shift
	id=$(ctl start --pid "$target" --output "$dir/$name" "$@" 2>"$dir/why") ||
		{
			case $(cat "$dir/why") in
			*'no right'* | *userfaultfd*) skip "$(cat "$dir/why")" ;;
			esac
			die "$(cat "$dir/why")"
		}
}

# The target does what it did, and nobody traces it.
healthy()
{
	kill -0 "$target" || die 'the target has ended'
	grep -q 'TracerPid:[[:space:]]*0$' "/proc/$target/status" ||
		die 'the target is traced'
	[ "$(awk '/^State/ { print $2 }' "/proc/$target/status")" != t ] ||
		die 'the target stands'
}

case_life()
{
	start_daemon
	[ "$(stat -c %a "$socket")" = 600 ] || die 'the socket is not 0600'
	start_target
	start one.snap
	expect 0 '"status": "complete"' "$bin/snapctl" --socket "$socket" \
		wait "$id"
	expect 0 complete "$bin/snapctl" verify "$dir/one.snap"
	expect 0 '"exit_code": 0' "$bin/snapctl" --socket "$socket" status "$id"
	expect 0 "$id" "$bin/snapctl" --socket "$socket" list
	expect 0 'snapshots_total{reason="complete"} 1' \
		"$bin/snapctl" --socket "$socket" metrics
	expect 2 'there is no snapshot nope' \
		"$bin/snapctl" --socket "$socket" status nope
	expect 5 exists "$bin/snapctl" --socket "$socket" start --pid "$target" \
		--output "$dir/one.snap"
	expect 4 'no process' "$bin/snapctl" --socket "$socket" start \
		--pid 4194303 --output "$dir/two.snap"
	expect 2 'no option frob' "$bin/snapctl" --socket "$socket" start \
		--pid "$target" --output "$dir/two.snap" --frob 1
	healthy
	expect 1 'another daemon' "$bin/snapd" --listen "$socket"
	kill -TERM "$daemon"
	wait "$daemon" || die "the daemon ended with $?"
	[ ! -e "$socket" ] || die 'the socket stays'
	daemon=
}

# Slow enough to be caught in the middle.
slow='--bandwidth 8K --fault-limit 0'

case_cancel()
{
	start_daemon
	start_target
	# shellcheck disable=SC2086 # options
	start slow.snap $slow
	expect 3 'being saved already' "$bin/snapctl" --socket "$socket" start \
		--pid "$target" --output "$dir/two.snap"
	ctl cancel "$id"
	expect 7 '"status": "cancelled"' "$bin/snapctl" --socket "$socket" \
		wait "$id"
	[ ! -e "$dir/slow.snap" ] || die 'a file stays'
	healthy
	# At the end of the daemon all are cancelled.
	# shellcheck disable=SC2086
	start slow.snap $slow
	kill -TERM "$daemon"
	wait "$daemon" || die "the daemon ended with $?"
	daemon=
	[ ! -e "$dir/slow.snap" ] || die 'a file stays'
	healthy
}

case_killed()
{
	start_daemon
	start_target
	# shellcheck disable=SC2086
	start slow.snap $slow
	kill -9 "$daemon"
	wait "$daemon" || true
	daemon=
	healthy
	[ ! -e "$dir/slow.snap" ] || die 'a file has the name'
	# The socket that was left is in nobody's way.
	start_daemon
	start two.snap
	expect 0 complete "$bin/snapctl" --socket "$socket" wait "$id"
	healthy
}

case_hostile()
{
	start_daemon
	start_target
	"$bin/hostile" "$socket" half &
	half=$!
	for mode in junk long deaf; do
		timeout 60 "$bin/hostile" "$socket" $mode || die "$mode"
	done
	start one.snap
	expect 0 complete "$bin/snapctl" --socket "$socket" wait "$id"
	wait "$half" || die 'half a line ends the connection'
	healthy
}

case $case in
life | cancel | killed | hostile) "case_$case" ;;
*)
	echo "no such case: $case"
	exit 2
	;;
esac

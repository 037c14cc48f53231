#!/bin/sh
# SPDX-License-Identifier: MIT
# The examples do what they say.  usage: test_examples.sh BIN-DIRECTORY CASE
set -eu

bin=$1
case=$2
# shellcheck source=tests/functional/expect.sh
. "$(dirname "$0")/expect.sh"

case_save_heap()
{
	expect 0 '200000 accounts, 200000000 in all' \
		"$bin/save_heap" "$dir/heap.snap"
	at=$(sed -n 's/Saving at transfer \([0-9]*\)\./\1/p' "$dir/out")
	grep -q "In the image: transfer $at," "$dir/out" ||
		die 'the image is of another transfer'
	expect 0 '' "$bin/snapctl" verify "$dir/heap.snap"
	expect 1 'save_heap: ' "$bin/save_heap" "$dir"
	expect 2 usage "$bin/save_heap"
}

case_poll_loop()
{
	expect 0 'is complete' "$bin/poll_loop" "$dir/data.snap" 64
	grep -q '16384 of 16384 pages saved' "$dir/out" || die 'not all pages'
	expect 0 '' "$bin/snapctl" verify "$dir/data.snap"
	expect 1 'poll_loop: ' "$bin/poll_loop" "$dir" 64
	expect 2 usage "$bin/poll_loop"
}

# Ctrl-C in the loop: no image, and nothing else stays.  A shell's background
# job ignores SIGINT until poll_loop blocks it, so it may be sent too early.
case_cancel()
{
	rc=0
	"$bin/poll_loop" "$dir/data.snap" 768 >"$dir/out" 2>&1 &
	pid=$!
	tries=0
	while [ "$tries" -lt 2000 ] && kill -INT "$pid" 2>/dev/null; do
		sleep 0.005
		tries=$((tries + 1))
	done
	wait "$pid" || rc=$?
	[ "$rc" -eq 1 ] || die "exit code $rc instead of 1"
	grep -q 'no image: .*cancelled' "$dir/out" || die 'not cancelled'
	[ "$(ls -A "$dir")" = out ] || die "left behind: $(ls -A "$dir")"
}

case $case in
save_heap | poll_loop | cancel) "case_$case" ;;
*)
	echo "no such case: $case"
	exit 2
	;;
esac

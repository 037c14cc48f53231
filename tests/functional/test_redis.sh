#!/bin/sh
# SPDX-License-Identifier: MIT
# A redis under load saved by its PID: what it held is in the image, what came
# later is not, and the server is none the worse for it.
# usage: test_redis.sh BIN-DIRECTORY CASE
set -eu

bin=$1
case=$2
# shellcheck source=tests/functional/expect.sh
. "$(dirname "$0")/expect.sh"

server=
load=

undo()
{
	for pid in $load $server; do
		kill -9 "$pid" 2>/dev/null || true
	done
}

for program in redis-server redis-cli redis-benchmark; do
	command -v $program >/dev/null || skip "there is no $program"
done

cli()
{
	redis-cli -s "$dir/redis" "$@"
}

# set_keys PREFIX: 20 keys with values that are nowhere else.
set_keys()
{
	i=0
	while [ $i -lt 20 ]; do
		cli set "$1:$i" "value-$1-$$-$i-of-20-that-is-found-by-grep" \
			>/dev/null
		i=$((i + 1))
	done
}

# How many values of PREFIX are in FILE.  One may lie across two frames.
found()
{
	grep -a -o "value-$1-$$-[0-9]*-of-20-that-is-found-by-grep" "$2" |
		sort -u | wc -l
}

case_load()
{
	(cd "$dir" && exec redis-server --port 0 --unixsocket "$dir/redis" \
		--save '' --appendonly no >"$dir/redis.log" 2>&1) &
	server=$!
	while ! cli ping >/dev/null 2>&1; do
		kill -0 "$server" || die "$(cat "$dir/redis.log")"
		sleep 0.05
	done
	redis-benchmark -s "$dir/redis" -t set -n 200000 -r 100000 -d 512 -q \
		>/dev/null 2>&1
	set_keys before
	redis-benchmark -s "$dir/redis" -t set,lpush,del -n 100000000 \
		-r 100000 -d 512 -q >/dev/null 2>&1 &
	load=$!
	sleep 0.3
	for round in 1 2 3; do
		rm -f "$dir/r.snap"
		expect 0 '"status":"complete"' "$bin/snapd" --pid "$server" \
			--output "$dir/r.snap" --json
		tail -n 1 "$dir/out" | cut -c 1-300
		set_keys "after$round"
		expect 0 complete "$bin/snapctl" verify "$dir/r.snap"
		[ "$(found before "$dir/r.snap")" -ge 18 ] ||
			die "$(found before "$dir/r.snap") of 20 values"
		[ "$(found "after$round" "$dir/r.snap")" -eq 0 ] ||
			die 'values from after the snapshot'
	done
	kill "$load"
	wait "$load" || true
	load=
	[ "$(cli get before:7)" = \
		"value-before-$$-7-of-20-that-is-found-by-grep" ] ||
		die 'the server has lost a value'
	[ "$(cli ping)" = PONG ] || die 'the server does not answer'
	grep -q 'TracerPid:[[:space:]]*0$' "/proc/$server/status" ||
		die 'the server is traced'
}

case $case in
load) "case_$case" ;;
*)
	echo "no such case: $case"
	exit 2
	;;
esac

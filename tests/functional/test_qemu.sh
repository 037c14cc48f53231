#!/bin/sh
# SPDX-License-Identifier: MIT
# A real QEMU guest saved by snapd while it runs, and brought back in a fresh
# QEMU, where it goes on from the tick it was saved at.
# usage: test_qemu.sh BIN-DIRECTORY CASE
set -eu

bin=$1
case=$2
# shellcheck source=tests/functional/expect.sh
. "$(dirname "$0")/expect.sh"

guest=
restored=
cpus=1

undo()
{
	for pid in $guest $restored; do
		kill -9 "$pid" 2>/dev/null || true
	done
}

command -v qemu-system-x86_64 >/dev/null || skip 'there is no QEMU'
[ "$(id -u)" -eq 0 ] || skip 'only root may attach to any process'

# start SERIAL OPTION...: a QEMU in the background, its PID in $!.
start()
{
	serial=$1
	shift
	qemu-system-x86_64 -nodefaults -display none -m 128 \
		-drive "format=raw,if=ide,snapshot=on,file=$bin/../tests/boot.bin" \
		-serial "file:$serial" "$@" >"$dir/qemu.log" 2>&1 &
}

# ticks FILE: how many lines the guest has printed.
ticks()
{
	if [ -e "$1" ]; then
		wc -l <"$1"
	else
		echo 0
	fi
}

# more FILE COUNT PID: wait for that many lines more.
more()
{
	goal=$(($(ticks "$1") + $2))
	while [ "$(ticks "$1")" -lt "$goal" ]; do
		kill -0 "$3" 2>/dev/null || die "$(cat "$dir/qemu.log")"
		sleep 0.05
	done
}

# The line after the ticket $1, hexadecimal: multiples of 2^20.
next_tick()
{
	printf '%08x' $((((0x$1 >> 20) + 1) << 20))
}

# save_and_restore OPTION...: of the first QEMU beside those of start().
save_and_restore()
{
	start "$dir/serial" -qmp "unix:$dir/qmp,server=on,wait=off" "$@"
	guest=$!
	more "$dir/serial" 2 "$guest"

	expect 0 '"status":"complete"' "$bin/snapd" --pid "$guest" \
		--output "$dir/guest.snap" --qmp "$dir/qmp" --json
	sed 's/^/    /' "$dir/out"
	more "$dir/serial" 2 "$guest"

	expect 0 complete "$bin/snapctl" verify "$dir/guest.snap"
	expect 0 'qemu: ' "$bin/snapctl" info "$dir/guest.snap"
	"$bin/snapctl" export "$dir/guest.snap" "$dir/ram.raw"
	"$bin/snapctl" export "$dir/guest.snap" --device-state qemu \
		"$dir/devices"
	expect 0 ' 0 words wrong' "$bin/check_ram" "$dir/ram.raw" "$cpus"
	saved=$(cut -c1-8 "$dir/out")
	echo "saved at ticket $saved"
	# Its last line before the restore, to see that it goes on meanwhile.
	went_on=$(tail -n 1 "$dir/serial")

	start "$dir/serial2" -qmp "unix:$dir/qmp2,server=on,wait=off" \
		"$@" -machine memory-backend=saved \
		-object "memory-backend-file,id=saved,size=128M,mem-path=$dir/ram.raw,share=off" \
		-global migration.send-configuration=off \
		-incoming "exec:cat $dir/devices"
	restored=$!
	more "$dir/serial2" 2 "$restored"
	first=$(head -n 1 "$dir/serial2")
	[ "$first" = "$(next_tick "$saved")" ] ||
		die "the restored guest goes on with $first"
	[ $((0x$went_on)) -gt $((0x$first)) ] || die 'the first did not go on'
	more "$dir/serial" 1 "$guest"
}

case_tcg()
{
	save_and_restore -machine pc,accel=tcg
}

case_kvm()
{
	[ -w /dev/kvm ] || skip 'there is no /dev/kvm'
	save_and_restore -machine pc,accel=kvm -cpu kvm64
}

case_memfd()
{
	save_and_restore -machine pc,accel=tcg,memory-backend=mem \
		-object memory-backend-memfd,id=mem,size=128M,share=on
}

case_smp()
{
	cpus=2
	save_and_restore -machine pc,accel=tcg -smp 2
}

case $case in
tcg | kvm | memfd | smp) "case_$case" ;;
*)
	echo "no such case: $case"
	exit 2
	;;
esac

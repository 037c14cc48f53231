#!/bin/sh
# SPDX-License-Identifier: MIT
# A real KVM guest is saved while it runs and brought back.
# usage: test_minivmm.sh BIN-DIRECTORY CASE, see the end for the cases.
set -eu

bin=$1
case=$2
huge=/proc/sys/vm/nr_hugepages
huge_added=0
# shellcheck source=tests/functional/expect.sh
. "$(dirname "$0")/expect.sh"

undo()
{
	[ "$huge_added" -eq 0 ] ||
		echo $(($(cat "$huge") - huge_added)) >"$huge"
}

# A number out of the JSON that `minivmm save --json` printed.
json()
{
	sed -n "s/.*\"$1\":\\([0-9]*\\).*/\\1/p" "$dir/out"
}

# flip FILE OFFSET: all bits of one byte.
flip()
{
	byte=$(od -An -tu1 -j "$2" -N 1 "$1")
	# shellcheck disable=SC2059 # the format is an octal escape
	printf "\\$(printf %o $((byte ^ 255)))" |
		dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

size()
{
	stat -c %s "$1"
}

# More than there are by $1; by as many fewer at the end, as others may add
# some of their own meanwhile.
reserve_huge_pages()
{
	[ -w "$huge" ] || skip "not allowed to write to $huge"
	wanted=$(($(cat "$huge") + $1))
	echo "$wanted" >"$huge"
	given=$(cat "$huge")
	huge_added=$(($1 - wanted + given))
	[ "$given" -ge "$wanted" ] || skip "the kernel gave no $1 huge pages"
}

# Saved and brought back, RAM exact to the word: before, after and going on.
# The guest runs meanwhile; on a busy machine one snapshot may be over before
# the guest's thread has had a turn, but not three.
round_trip()
{
	for try in 1 2 3; do
		rm -f "$dir/$1.snap"
		expect 0 '"mismatches":0' "$bin/minivmm" save "$dir/$1.snap" \
			--json --mem 64 --backing "$1" --compress "$2"
		[ "$(json n_end)" -le "$(json n_begin)" ] || break
		[ "$try" -lt 3 ] || die 'the guest stood still meanwhile'
	done
	grep -q '"status":"complete"' "$dir/out" || die 'not complete'
	expect 0 '' "$bin/snapctl" verify "$dir/$1.snap"
	for backing in "$1" $3; do
		expect 0 'RAM after going on:.* 0 mismatches' \
			"$bin/minivmm" restore "$dir/$1.snap" \
			--backing "$backing" --seconds 0.1
		grep -q 'restored RAM:.* 0 mismatches' "$dir/out" ||
			die 'restored RAM was not checked'
	done
	rm "$dir/$1.snap"
}

# The check itself can fail: by one bit, and by one step of the guest.
case_check()
{
	image=$dir/guest.snap
	expect 0 'live RAM:.* 0 mism' "$bin/minivmm" save "$image" --mem 16
	for what in bit step; do
		expect 1 'restored RAM:.* 1 mism' "$bin/minivmm" \
			restore "$image" --corrupt $what
		expect 1 'live RAM:.* 1 mism' "$bin/minivmm" \
			save "$dir/$what.snap" --mem 16 --corrupt $what
	done
}

# A spoilt image is refused with a sentence, wherever it is spoilt.
case_damaged()
{
	image=$dir/guest.snap bad=$dir/bad.snap
	expect 0 'live RAM' "$bin/minivmm" save "$image" --mem 16
	bytes=$(size "$image")
	for at in 0 20 200 4096 $((bytes / 2)) $((bytes - 4100)) \
		$((bytes - 60)) $((bytes - 1)); do
		cp "$image" "$bad"
		flip "$bad" $at
		expect 1 'damaged' "$bin/minivmm" restore "$bad"
	done
	for at in 0 100 $((bytes / 2)) $((bytes - 1)); do
		cp "$image" "$bad"
		truncate -s "$at" "$bad"
		expect 1 'damaged' "$bin/minivmm" restore "$bad"
	done
	expect 0 '' "$bin/save_heap" "$dir/heap.snap"
	expect 1 'minivmm: ' "$bin/minivmm" restore "$dir/heap.snap"
	expect 1 'No such file' "$bin/minivmm" restore "$dir/none.snap"
}

# What cannot be saved, or not there, leaves things as they were.
case_refused()
{
	image=$dir/guest.snap
	expect 0 'live RAM' "$bin/minivmm" save "$image" --mem 16
	before=$(cksum <"$image")
	expect 1 'exists' "$bin/minivmm" save "$image" --mem 16
	[ "$(cksum <"$image")" = "$before" ] || die 'the old image changed'
	expect 1 'directory' "$bin/minivmm" save "$dir" --mem 16
	expect 1 'does not exist' "$bin/minivmm" save "$dir/no/guest.snap" \
		--mem 16
	[ "$(ls -A "$dir")" = "$(printf 'guest.snap\nout')" ] ||
		die "left behind: $(ls -A "$dir")"
}

case_usage()
{
	expect 2 usage "$bin/minivmm"
	expect 2 usage "$bin/minivmm" save
	expect 2 usage "$bin/minivmm" steal "$dir/x"
	expect 2 usage "$bin/minivmm" save "$dir/x" more
	expect 2 usage "$bin/minivmm" save "$dir/x" --mem 3
	expect 2 usage "$bin/minivmm" save "$dir/x" --mem 2
	expect 2 usage "$bin/minivmm" save "$dir/x" --mem 4096
	expect 2 usage "$bin/minivmm" save "$dir/x" --mem 16x
	expect 2 usage "$bin/minivmm" save "$dir/x" --mem 17592186044432
	expect 2 usage "$bin/minivmm" save "$dir/x" --backing paper
	expect 2 usage "$bin/minivmm" save "$dir/x" --seconds never
	expect 2 usage "$bin/minivmm" save "$dir/x" --compress rar
	expect 2 usage "$bin/minivmm" save "$dir/x" --corrupt everything
	expect 2 usage "$bin/minivmm" save "$dir/x" --frobnicate
	[ ! -e "$dir/x" ] || die 'wrong usage made a file'
}

# In a mount namespace whose /dev has no kvm.
case_no_kvm()
{
	unshare -m true 2>/dev/null || skip 'not allowed to unshare mounts'
	# shellcheck disable=SC2016 # $0 and $1 are the inner shell's
	expect 77 'no KVM: cannot use /dev/kvm' unshare -m sh -c \
		'mount -t tmpfs none /dev && exec "$0" save "$1"' \
		"$bin/minivmm" "$dir/x"
	[ ! -e "$dir/x" ] || die 'a file was made'
}

case $case in
anon) round_trip anon none memfd ;;
zstd) round_trip anon zstd thp ;;
thp) round_trip thp none anon ;;
memfd) round_trip memfd none thp ;;
hugetlb)
	reserve_huge_pages 34
	round_trip hugetlb none anon
	;;
check | damaged | refused | usage | no_kvm) "case_$case" ;;
*)
	echo "no such case: $case"
	exit 2
	;;
esac

# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# For tests that run programs: sourced, gives a directory $dir that goes with
# the test, and expect(), die(), skip().

dir=$(mktemp -d)

# What a test undoes beside $dir: it may define this anew.
undo()
{
	:
}

trap 'undo; rm -rf "$dir"' EXIT
trap 'exit 143' INT TERM

skip()
{
	echo "skipped: $1"
	exit 77
}

die()
{
	echo "FAILED: $1"
	[ ! -s "$dir/out" ] || sed 's/^/    /' "$dir/out"
	exit 1
}

# expect CODE TEXT COMMAND...: its exit code, and a text that it printed.  A
# command that cannot work on this machine, exit code 77, skips the test.
expect()
{
	code=$1 text=$2 rc=0
	shift 2
	echo "> $*"
	timeout -k 5 100 "$@" >"$dir/out" 2>&1 || rc=$?
	[ "$rc" -ne 77 ] || [ "$code" -eq 77 ] || skip "$(cat "$dir/out")"
	[ "$rc" -eq "$code" ] || die "exit code $rc instead of $code"
	grep -q -- "$text" "$dir/out" || die "does not say '$text'"
}

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_exports.sh LIBRARY HEADER MAP: what the library exports, what the header
# declares and what the version map lists are the same names.
set -euo pipefail

library=$1 header=$2 map=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The last word before the parameters of each declaration marked SNAP_API,
# with comments gone.
gcc -fpreprocessed -dD -E -P -x c "$header" | grep -v '^#' | tr '\n' ' ' |
  grep -oE 'SNAP_API [^;({]*\(' | sed -E 's/[ *(]*$//; s/.*[ *]//' |
  sort >"$dir/header"
grep -oE '^[[:space:]]+snap_[a-z0-9_]+;' "$map" | tr -d '\t ;' |
  sort >"$dir/map"
# Version nodes are absolute symbols (A).
nm --dynamic --defined-only "$library" | awk '$2 != "A" { print $3 }' |
  tee "$dir/versioned" | sed 's/@.*//' | sort >"$dir/library"

rc=0
[ -s "$dir/header" ] || { echo "no SNAP_API in $header" >&2; rc=1; }
for other in map library; do
  diff -u --label "declared in libsnap.h" --label "in the $other" \
    "$dir/header" "$dir/$other" || rc=1
done
if grep -v '@@LIBSNAP_[0-9]' "$dir/versioned"; then
  echo 'the names above have no version' >&2
  rc=1
fi
[ "$rc" -ne 0 ] || echo "$(wc -l <"$dir/header") names, the same everywhere"
exit "$rc"

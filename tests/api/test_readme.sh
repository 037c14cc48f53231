#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_readme.sh README STAGE: the first C program in the README compiles
# without a warning, takes a snapshot, and the snapshot verifies.
set -euo pipefail

readme=$1 stage=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

awk '/^```c$/ { on = 1; next } /^```$/ { if (on) exit } on' "$readme" \
  >"$dir/readme.c"
grep -q snap_begin "$dir/readme.c" || {
  echo "$readme has no C program that takes a snapshot" >&2
  exit 1
}
lines=$(grep -c . "$dir/readme.c")
[ "$lines" -le 32 ] || {
  echo "the program in $readme has grown to $lines lines" >&2
  exit 1
}

pcdir=$(dirname "$(find "$stage" -name libsnap.pc)")
read -ra flags < <(PKG_CONFIG_PATH=$pcdir pkg-config --cflags --libs libsnap)
gcc -std=gnu11 -Wall -Wextra -Werror "$dir/readme.c" -o "$dir/readme" \
  "${flags[@]}"
export LD_LIBRARY_PATH=${pcdir%/pkgconfig}
cd "$dir"
if ! ./readme 2>said; then
  cat said >&2
  if grep -q vm.unprivileged_userfaultfd said; then
    echo "skipped: no right to trap faults of the kernel"
    exit 77
  fi
  exit 1
fi
"$stage/bin/snapctl" verify guest.snap

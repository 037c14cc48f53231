#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_pages.sh ROOT: every public function has its place in the man pages of
# section 3, those name no other, and mandoc has nothing to say against them.
set -euo pipefail

cd "$1"
rc=0
names=$(gcc -fpreprocessed -dD -E -P -x c include/libsnap.h | grep -v '^#' |
  tr '\n' ' ' | grep -oE 'SNAP_API [^;({]*\(' |
  sed -E 's/[ *(]*$//; s/.*[ *]//')
documented=$(grep -hE '^\.BI? "' man/*.3 | grep -oE '\bsnap_[a-z_]+\(' |
  tr -d '(' | sort -u)
diff -u --label 'declared in libsnap.h' --label 'in man/*.3' \
  <(sort <<<"$names") <(printf '%s\n' "$documented") || rc=1
mandoc -T lint -W warning man/*.[1-8] || rc=1
exit "$rc"

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# sizes.sh ROOT: a function has 60 lines and 6 parameters at most, a file 800
# lines.
set -euo pipefail
# shellcheck source=tests/lint/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$1"
need ctags

mapfile -t files < <(c_files)
for file in "${files[@]}"; do
  lines=$(wc -l <"$file")
  [ "$lines" -le 800 ] || complain "$file: $lines lines, more than 800"
done

# NAME FILE LINE END SIGNATURE, with tabs between.
while IFS=$'\t' read -r name file line end signature; do
  lines=$((end - line + 1))
  [ "$lines" -le 60 ] ||
    complain "$file:$line: $name() has $lines lines, more than 60"
  commas=${signature//[^,]/}
  [ "${#commas}" -le 5 ] ||
    complain "$file:$line: $name() has $((${#commas} + 1)) parameters," \
      "more than 6"
done < <(ctags --languages=C --langmap=C:.c.h --c-kinds=f --_xformat='%N	%F	%n	%e	%S' -x "${files[@]}" </dev/null)

verdict

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# format.sh ROOT: all C is as clang-format would have it.
set -euo pipefail
# shellcheck source=tests/lint/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$1"
need clang-format

mapfile -t files < <(c_files)
while read -r file; do
  complain "$file: run clang-format -i $file"
done < <(clang-format --dry-run -Werror "${files[@]}" 2>&1 |
  sed -nE 's/^([^:]+):[0-9]+:[0-9]+: error: .*/\1/p' | sort -u)
verdict

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# words.sh ROOT: every file of ours says its licence, none has a note of work
# left to do, a typedef'd struct or a path of somebody's machine, and links
# between the documents lead somewhere.
set -euo pipefail
# shellcheck source=tests/lint/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$1"

mapfile -t sources < <(c_files)
mapfile -t others < <(find scripts tests cmake .ci tools examples bench libsnap \
  CMakeLists.txt -type f \( -name '*.sh' -o -name '*.cmake' \
  -o -name CMakeLists.txt -o -path 'scripts/*' -o -path '.ci/*' \) | sort)
mapfile -t documents < <(find . -path ./build -prune -o -name '*.md' -print)

for file in "${sources[@]}" "${others[@]}"; do
  head -n 3 "$file" | grep -q 'SPDX-License-Identifier: ' ||
    complain "$file: no SPDX line"
done

notes='\b(TO''DO|FIX''ME|X''XX)\b'
while read -r line; do
  complain "$line: do it, or file an issue"
done < <(grep -nE "$notes" "${sources[@]}" "${others[@]}" "${documents[@]}" \
  man/* /dev/null || true)

for file in $(grep -l typedef "${sources[@]}" || true); do
  line=$(code "$file" | grep -nE -m 1 'typedef (struct|union|enum)' || true)
  [ -z "$line" ] || complain "$file: structs are never typedef'd: ${line#*:}"
done

for file in "${documents[@]}"; do
  while read -r target; do
    case $target in
    '' | *://* | '#'*) continue ;;
    esac
    [ -e "$(dirname "$file")/${target%%#*}" ] ||
      complain "$file: its link to $target leads nowhere"
  done < <(grep -oE '\]\([^)]+\)' "$file" | sed 's/^](//; s/)$//')
  # Commands that are named as scripts/NAME.
  while read -r command; do
    [ -x "$command" ] || complain "$file: there is no command $command"
  done < <(grep -oE '(^|[^/[:alnum:]])scripts/[a-z]+' "$file" |
    grep -oE 'scripts/[a-z]+' | sort -u)
done

verdict

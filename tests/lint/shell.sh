#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shell.sh ROOT: shellcheck has nothing to say against our scripts, and each
# stops at the first command that fails.
set -euo pipefail
# shellcheck source=tests/lint/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$1"
need shellcheck

for file in $(find scripts .ci tests kernel -type f 2>/dev/null | sort); do
  case $(head -n 1 "$file" | tr -d '\0') in
  '#!'*sh) ;;
  *) [[ $file == *.sh ]] || continue ;;
  esac
  shellcheck -x "$file" >&2 || complain "$file: see above"
  [[ $(head -n 1 "$file") != '#!'* ]] ||
    grep -qE '^set -e(u|uo pipefail)$' "$file" ||
    complain "$file: no 'set -euo pipefail' (sh: 'set -eu')"
done
verdict

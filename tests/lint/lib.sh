# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the rules: counts complaints, finds our files.

complaints=0

complain() {
  printf '%s\n' "$*" >&2
  complaints=$((complaints + 1))
}

# Ends the rule: 0 when there was nothing to complain of.
verdict() {
  [ "$complaints" -eq 0 ] || exit 1
}

need() {
  command -v "$1" >/dev/null || {
    echo "skipped: $1 is not installed; scripts/setup installs it"
    exit 77
  }
}

# Our C sources, from the root of the project on.
c_files() {
  local dirs=() dir
  for dir in include libsnap daemon tools bench examples tests kernel; do
    [ ! -d "$dir" ] || dirs+=("$dir")
  done
  find "${dirs[@]}" -name '*.[ch]' | sort
}

# A C file without its comments, line numbers kept; made once for each file.
code_dir=$(mktemp -d)
trap 'rm -rf "$code_dir"' EXIT
code() {
  local copy=$code_dir/${1//\//%}
  [ -e "$copy" ] || gcc -fpreprocessed -dD -E -x c "$1" >"$copy" 2>/dev/null
  cat "$copy"
}

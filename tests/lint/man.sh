#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# man.sh ROOT: every public function has a page of its own name, which declares
# it as libsnap.h does, as does the overview libsnap.3; no page declares another,
# and mandoc has nothing to say against them.
set -euo pipefail
# shellcheck source=tests/lint/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$1"
need mandoc

# synopsis PAGE: its text.
synopsis() {
  mandoc -T ascii "$1" | sed 's/.\x08//g' |
    awk '/^[A-Z]/ { on = $0 == "SYNOPSIS"; next } on'
}

# A page that is another's is one line.
declare -A target=() declared=()
for page in man/*.[1-8]; do
  target[$page]=$page
  if grep -q '^\.so' "$page"; then
    to=$(sed -n '1s,^\.so man\([1-8]\)/\(.*\.\1\)$,man/\2,p' "$page")
    if [ "$(wc -l <"$page")" -ne 1 ] || [ ! -f "$to" ]; then
      complain "$page: its .so leads nowhere, or is not its only line"
    fi
    target[$page]=$to
    continue
  fi
  mandoc -T lint -W warning "$page" >&2 || complain "$page: see above"
  declared[$page]=$(synopsis "$page")
done

# One prototype a line.
mapfile -t prototypes < <(code include/libsnap.h | grep -v '^#' | tr '\n' ' ' |
  grep -oE 'SNAP_API [^;{]*\([^;{]*;' | sed 's/SNAP_API//; s/SNAP_MUST_CHECK//')
[ "${#prototypes[@]}" -gt 0 ] || complain 'include/libsnap.h: no function found'

declare -A public=()
for prototype in "${prototypes[@]}"; do
  name=$(grep -oE '\bsnap_[a-z_]+\(' <<<"$prototype" | head -n 1)
  name=${name%(}
  public[$name]=yes
  page=man/$name.3
  if [ -z "${target[$page]-}" ]; then
    complain "$page: $name() has no page"
    continue
  fi
  for page in "${target[$page]}" man/libsnap.3; do
    text=${declared[$page]-} # lines may be cut anywhere
    [[ ${text//[[:space:]]/} == *"${prototype//[[:space:]]/}"* ]] ||
      complain "$page: does not declare $name() as libsnap.h does"
  done
  sed -n '/^\.SH NAME/,/^\.SH SYNOPSIS/p' "${target[man/$name.3]}" |
    grep -qw "$name" || complain "man/$name.3: $name is not in NAME"
done

for page in "${!declared[@]}"; do
  while read -r name; do
    [ -n "${public[${name%(}]-}" ] ||
      complain "$page: declares ${name%(}(), which libsnap.h does not have"
  done < <(grep -oE '\bsnap_[a-z_]+\(' <<<"${declared[$page]}" | sort -u)
done
verdict

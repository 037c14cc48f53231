#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# layers.sh ROOT: modules include only what is below or beside them, without
# cycles; programs see nothing but libsnap.h; each kernel interface has one file.
set -euo pipefail
# shellcheck source=tests/lint/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$1"

# A module is NAME.[ch] and NAME_*.[ch]. From the lowest layer to the highest;
# libsnap.h is below them all.
layers=(
  'util error log'
  'sys thread maps region pagestate format stats'
  'uffd residency target bufpool coalesce window attach image complaints backing pick hazard output'
  'guest arm prearm audit protect capture survey pausecopy encode writer probe restore'
  'fault sweep discard watchdog'
  'session snap'
)
# Parts of a module that are not named after it.
declare -A part_of=([tail]=writer)

declare -A layer_of=([libsnap]=-1)
for i in "${!layers[@]}"; do
  for module in ${layers[$i]}; do
    layer_of[$module]=$i
  done
done

# module_of FILE: the module it belongs to, or nothing.
module_of() {
  local name=${1##*/}
  name=${name%.[ch]}
  name=${part_of[$name]-$name}
  while [ -z "${layer_of[$name]-}" ] && [ "$name" != "${name%_*}" ]; do
    name=${name%_*}
  done
  [ -z "${layer_of[$name]-}" ] || printf '%s' "$name"
}

# includes FILE: the headers it names in quotes.
includes() {
  code "$1" | sed -nE 's/^[[:space:]]*#[[:space:]]*include "([^"]+)".*/\1/p'
}

edges=$code_dir/edges

touch "$edges"
for file in libsnap/*.[ch] libsnap/util/*.[ch]; do
  [ -e "$file" ] || continue
  case $file in
  libsnap/util/*) from=util ;;
  *) from=$(module_of "$file") ;;
  esac
  if [ -z "$from" ]; then
    complain "$file: tests/lint/layers.sh knows no such module; give it a layer"
    continue
  fi
  while read -r header; do
    case $header in
    util/*) to=util ;;
    *) to=$(module_of "$header") ;;
    esac
    if [ -z "$to" ]; then
      complain "$file: includes \"$header\", which is no module of libsnap/"
    elif [ "${layer_of[$to]}" -gt "${layer_of[$from]}" ]; then
      complain "$file: $from includes \"$header\", a layer above it"
    elif [ "$to" != "$from" ]; then
      printf '%s %s\n' "$from" "$to" >>"$edges"
    fi
  done < <(includes "$file")
done
tsort "$edges" >/dev/null 2>"$edges.loop" ||
  complain "modules include each other:$(sed 's/^tsort: //' "$edges.loop" |
    grep -v 'input contains a loop' | tr '\n' ' ')"

# A header beside the file hides one of the same name in libsnap/.
for dir in tools daemon bench examples; do
  for file in "$dir"/*.[ch]; do
    [ -e "$file" ] || continue
    while read -r header; do
      [ ! -e "$dir/$header" ] || continue
      if [ -e "libsnap/$header" ] || [[ $header == *libsnap/* ]]; then
        complain "$file: includes \"$header\"; $dir/ may see only libsnap.h"
      fi
    done < <(includes "$file")
  done
done

# only_in FILES-PATTERN WORD: in libsnap/, WORD is in code of those files only;
# messages may name it.
only_in() {
  local file line
  while read -r file; do
    # shellcheck disable=SC2254 # a pattern is what it is meant to be
    case ${file#libsnap/} in
    $1) continue ;;
    esac
    line=$(code "$file" | sed 's/"[^"]*"/""/g' | grep -nE -m 1 "$2" || true)
    [ -z "$line" ] || complain "$file: only $1 may talk of $2: ${line#*:}"
  done < <(grep -lE "$2" libsnap/*.[ch])
}
shopt -s extglob
only_in 'uffd.[ch]' 'UFFDIO_'
only_in 'writer_uring.c' 'liburing\.h|\bio_uring_'
only_in 'residency.c' 'PAGEMAP_SCAN'
only_in '@(sys|attach_*).c' '\bsyscall\(|\berrno = '
# In the attach helper, which is a process of its own.
only_in 'attach*.c' '\b(signal|sigaction)\('

verdict

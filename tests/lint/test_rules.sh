#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_rules.sh: each rule finds what it is there to find, in a small tree made
# for it, and has nothing to say against that tree before.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
rc=0

# A tree that keeps all rules; each offence is then put into a fresh one.
fresh() {
  rm -rf "$tree"
  mkdir -p "$tree"/{include,libsnap/util,tools,scripts,tests,cmake,.ci,man} \
    "$tree"/{bench,examples}
  echo '# SPDX-License-Identifier: MIT' >"$tree/CMakeLists.txt"
  printf '// SPDX-License-Identifier: MIT\n#include "sys.h"\n' \
    >"$tree/libsnap/uffd.c"
  printf '/* SPDX-License-Identifier: MIT */\n' >"$tree/libsnap/sys.h"
  printf '%s\n' '/* SPDX-License-Identifier: MIT */' '#define SNAP_API' \
    'SNAP_API int snap_a(void);' >"$tree/include/libsnap.h"
  printf '%s\n' '.TH LIBSNAP 3 "2026-12-01"' '.SH NAME' 'snap_a \- a page' \
    '.SH SYNOPSIS' 'int snap_a(void);' >"$tree/man/libsnap.3"
  echo '.so man3/libsnap.3' >"$tree/man/snap_a.3"
  printf '#!/bin/sh\n# SPDX-License-Identifier: MIT\nset -eu\n' \
    >"$tree/scripts/setup"
  chmod +x "$tree/scripts/setup"
  cp "$here/../../.clang-format" "$tree/"
}

# run RULE: its exit code and what it said.
run() {
  code=0
  said=$("$here/$1.sh" "$tree" 2>&1) || code=$?
  [ "$code" -ne 77 ] || { echo "$said"; exit 77; }
}

# offence RULE WORDS FILE TEXT: the rule names it once TEXT is added to FILE.
offence() {
  fresh
  printf '%b' "$4" >>"$tree/$3"
  run "$1"
  if [ "$code" -ne 1 ] || [[ $said != *"$2"* ]]; then
    echo "$1 did not find '$2' in $3 (exit code $code): $said" >&2
    rc=1
  fi
}

fresh
for rule in layers sizes words man format shell; do
  run "$rule"
  [ "$code" -eq 0 ] || { echo "$rule: $said" >&2; rc=1; }
done

many=$(printf 'x;\\n%.0s' {1..60})
offence layers 'a layer above it' libsnap/sys.h '#include "session.h"\n'
offence layers 'no module' libsnap/sys.h '#include "other.h"\n'
offence layers 'knows no such module' libsnap/other.c ''
offence layers 'only uffd' libsnap/sys.h 'int x = UFFDIO_API;\n'
offence layers 'only writer_uring' libsnap/sys.h '#include <liburing.h>\n'
offence layers 'may see only libsnap.h' tools/main.c '#include "sys.h"\n'
offence sizes 'f() has 63 lines' libsnap/uffd.c \
  "static void f(int x)\n{\n${many}}\n"
offence sizes 'f() has 7 parameters' libsnap/uffd.c \
  'int f(int a, int b, int c, int d, int e, int f, int g)\n{\n}\n'
offence sizes 'more than 800' libsnap/uffd.c "$(printf '\\n%.0s' {1..800})"
offence words 'no SPDX line' tools/main.c 'int x;\n'
offence words 'do it' libsnap/uffd.c '/* TO''DO */\n'
offence words "never typedef'd" libsnap/uffd.c 'typedef struct s s_t;\n'
offence words 'leads nowhere' README.md '[a](b.md)\n'
offence words 'no command' README.md 'scripts/none\n'
offence man 'snap_b() has no page' include/libsnap.h \
  'SNAP_API int snap_b(void);\n'
offence man 'does not declare snap_a()' include/libsnap.h \
  'SNAP_API int snap_a(int x);\n'
offence man 'snap_c(), which' man/libsnap.3 'int snap_c(void);\n'
offence man 'see above' man/libsnap.3 '.XX\n'
offence man 'leads nowhere' man/snap_a.3 '.so man3/none.3\n'
offence format 'clang-format -i' libsnap/uffd.c 'int  x;\n'
# shellcheck disable=SC2016 # the offence itself
offence shell 'see above' scripts/setup 'echo $1\n'
offence shell "no 'set -euo" scripts/other '#!/bin/bash\n'

# A page that declares a function and has another name in NAME.
fresh
echo 'SNAP_API int snap_b(void);' >>"$tree/include/libsnap.h"
echo 'int snap_b(void);' >>"$tree/man/libsnap.3"
cp "$tree/man/snap_a.3" "$tree/man/snap_b.3"
run man
[[ $code -eq 1 && $said == *'snap_b is not in NAME'* ]] ||
  { echo "man did not find a name missing: $said" >&2; rc=1; }

# Includes in a circle, though within one layer.
fresh
for pair in target:residency residency:target; do
  printf '#include "%s.h"\n' "${pair#*:}" >"$tree/libsnap/${pair%:*}.h"
done
run layers
[[ $code -eq 1 && $said == *'include each other'* ]] ||
  { echo "layers did not find a circle: $said" >&2; rc=1; }
exit "$rc"

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_install.sh BUILD SOURCE STAGE: installs the build into STAGE, and by
# DESTDIR elsewhere; everything is there and nothing tells where it was built.
set -euo pipefail

build=$1 source=$2 stage=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
  echo "$*" >&2
  exit 1
}

rm -rf "$stage"
cmake --install "$build" --prefix "$dir/first" >"$dir/log" 2>&1 ||
  { cat "$dir/log" >&2; exit 1; }
mv "$dir/first" "$stage" # what cannot be moved would break here

libdir=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:PATH=//p' "$build/CMakeCache.txt")
for file in include/libsnap.h "$libdir"/{libsnap.a,libsnap.so} \
  "$libdir/pkgconfig/libsnap.pc" "$libdir/cmake/libsnap/libsnapConfig.cmake" \
  bin/snapctl share/man/man1/snapctl.1 share/man/man3/libsnap.3 \
  share/doc/libsnap/README.md share/doc/libsnap/LICENSE; do
  [ -e "$stage/$file" ] || fail "not installed: $file"
done

# Debug information may name the sources; what is read at run time may not.
if grep -rlF -e "$build" -e "$source/" -e "$dir" "$stage" \
  --include='*.pc' --include='*.cmake' --include='*.h' --include='*.[1-8]'
then
  fail 'the files above name the directory of the build'
fi
for program in "$stage"/bin/*; do
  ! readelf -d "$program" | grep -E 'R(UN)?PATH' | grep -F "$build" ||
    fail "$program looks for libraries in the build directory"
done
"$stage/bin/snapctl" --version || fail 'the installed snapctl does not start'

DESTDIR=$dir/dest cmake --install "$build" --prefix /usr >"$dir/log" 2>&1 ||
  { cat "$dir/log" >&2; exit 1; }
[ -e "$dir/dest/usr/$libdir/libsnap.so" ] || fail 'DESTDIR is not respected'

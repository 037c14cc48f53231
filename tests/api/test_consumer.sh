#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_consumer.sh find_package|pkg_config shared|static STAGE: a project of
# somebody else's, in C and C++, is built against the installed tree and runs.
set -euo pipefail

way=$1 kind=$2 stage=$3
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
pcdir=$(dirname "$(find "$stage" -name libsnap.pc)")
libdir=$(dirname "$pcdir")

if [ "$way" = find_package ]; then
  cmake -S "$here/consumer" -B "$dir/build" -DKIND="$kind" \
    -DCMAKE_PREFIX_PATH="$stage"
  cmake --build "$dir/build" --verbose
  programs=("$dir/build/consumer_c" "$dir/build/consumer_cxx")
else
  export PKG_CONFIG_PATH=$pcdir
  static=()
  if [ "$kind" = static ]; then
    # An installation without the .so, as those who link statically have it.
    cp -r "$stage" "$dir/stage"
    find "$dir/stage" -name 'libsnap.so*' -delete
    PKG_CONFIG_PATH=$dir/stage/${pcdir#"$stage"/}
    static=(--static)
  fi
  read -ra cflags < <(pkg-config --cflags libsnap)
  read -ra libs < <(pkg-config "${static[@]}" --libs libsnap)
  gcc -std=c11 -Wall -Wextra -Werror "${cflags[@]}" \
    "$here/consumer/consumer.c" -o "$dir/consumer_c" "${libs[@]}"
  g++ -std=c++17 -Wall -Wextra -Werror "${cflags[@]}" \
    "$here/consumer/consumer.cpp" -o "$dir/consumer_cxx" "${libs[@]}"
  programs=("$dir/consumer_c" "$dir/consumer_cxx")
  export LD_LIBRARY_PATH=$libdir
fi

version=$(sed -n 's/^Version: //p' "$pcdir/libsnap.pc")
for program in "${programs[@]}"; do
  case $kind:$(readelf -d "$program" | grep -c 'NEEDED.*libsnap' || true) in
  shared:1 | static:0) ;;
  *)
    echo "$program is not linked to the $kind library" >&2
    exit 1
    ;;
  esac
  said=$("$program")
  [ "$said" = "libsnap $version" ] || {
    echo "$program said '$said', not 'libsnap $version'" >&2
    exit 1
  }
done

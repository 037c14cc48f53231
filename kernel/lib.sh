# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Sourced by kernel/build and kernel/boot: where things are, and what a kernel is
# cached under.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # for those who source this
cache=$(dirname "$here")/build/kernel

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# need PACKAGE...: installs those that are missing.
need() {
  local missing=() name as_root=()
  for name in "$@"; do
    dpkg-query -W -f '${db:Status-Abbrev}' "$name" 2>/dev/null |
      grep -q '^ii' || missing+=("$name")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  echo "${0##*/}: installing ${missing[*]}" >&2
  "${as_root[@]}" apt-get -qq update >&2 || true
  "${as_root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300 install -y \
    --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install ${missing[*]}"
}

# The version of linux-source-6.1 that is installed.
source_version() {
  dpkg-query -W -f '${Version}' linux-source-6.1
}

# What the patched kernel is made of, as one word.
kernel_key() {
  {
    source_version
    cat "$here/config" "$here"/patches/*.patch
  } | sha256sum | cut -c 1-16
}

# debian_kernel PACKAGE: the files of the kernel that the meta package PACKAGE
# stands for, fetched and unpacked but not installed; prints where.
debian_kernel() {
  local package dir
  package=$(apt-cache depends "$1" |
    sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1)
  [ -n "$package" ] || die "apt does not know $1"
  dir=$cache/$package
  if [ ! -d "$dir" ]; then
    mkdir -p "$dir.new"
    (cd "$dir.new" && apt-get -qq download "$package" 2>/dev/null >&2 &&
      dpkg-deb -x "$package"_*.deb . && rm "$package"_*.deb) ||
      die "could not fetch $package"
    mv "$dir.new" "$dir"
  fi
  printf '%s\n' "$dir"
}

# programs: compiles the laboratory's programs; prints where they are.
programs() {
  local bin=$cache/bin flags=(-std=gnu11 -O2 -Wall -Wextra -Werror -pthread)
  mkdir -p "$bin"
  gcc "${flags[@]}" -o "$bin/refault" "$here"/{refault,vm}.c
  gcc "${flags[@]}" -o "$bin/hole" "$here"/{hole,vm}.c
  gcc "${flags[@]}" -o "$bin/safety" "$here"/{safety,disturb,vm}.c
  printf '%s\n' "$bin"
}

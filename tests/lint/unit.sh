#!/bin/sh
# SPDX-License-Identifier: MIT
# systemd takes the unit as it is written.  usage: unit.sh SNAPD UNIT
set -eu
command -v systemd-analyze >/dev/null || {
	echo 'skipped: there is no systemd-analyze'
	exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Of the program that was built: the unit names the installed one.
sed "s|^ExecStart=[^ ]*|ExecStart=$1|" "$2" >"$dir/snapd.service"
systemd-analyze verify --man=no "$dir/snapd.service" >"$dir/out" 2>&1 || true
if grep -F snapd.service "$dir/out"; then
	exit 1
fi

#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# test_imports.sh LIBRARY: the library has no means to print, to end the process
# or to raise a signal; tests/lint/layers.sh holds who may handle one.
set -euo pipefail

words='printf|vprintf|puts|putchar|perror|stdout|stderr|__printf_chk|exit'
words+='|quick_exit|abort|raise|atexit|syslog|setlocale'
if nm --dynamic --undefined-only "$1" | awk '{ print $NF }' | sed 's/@.*//' |
  grep -xE "$words"; then
  echo 'the library uses the functions above' >&2
  exit 1
fi

# SPDX-License-Identifier: MIT
# Flags of everything here: one interface target, no global mutation.
add_library(snap_flags INTERFACE)
target_compile_features(snap_flags INTERFACE c_std_11)
target_compile_definitions(snap_flags INTERFACE _GNU_SOURCE)
target_compile_options(snap_flags INTERFACE
  -Wall -Wextra -Wshadow -Wno-unused-parameter
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
  $<$<BOOL:${SNAP_WERROR}>:-Werror>
  $<$<BOOL:${SNAP_ASSERTS}>:-UNDEBUG>)
if(SNAP_SANITIZE)
  target_compile_options(snap_flags INTERFACE
    -fsanitize=${SNAP_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(snap_flags INTERFACE -fsanitize=${SNAP_SANITIZE})
endif()
if(SNAP_FUZZ)
  target_compile_options(snap_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(SNAP_COVERAGE)
  target_compile_options(snap_flags INTERFACE --coverage)
  target_link_options(snap_flags INTERFACE --coverage)
endif()
if(SNAP_TIDY)
  find_program(CLANG_TIDY clang-tidy REQUIRED)
  set(CMAKE_C_CLANG_TIDY ${CLANG_TIDY} --quiet)
endif()

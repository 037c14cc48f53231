# SPDX-License-Identifier: MIT
# The corpus is replayed in every build; with SNAP_FUZZ (preset fuzz) there is
# also build/fuzz/bin/fuzz_format, which takes a directory to put inputs in:
#   fuzz_format NEW-DIRECTORY tests/fuzz/corpus
add_library(fuzz_format_target OBJECT fuzz/fuzz_format.c fuzz/reseal.c)
target_include_directories(fuzz_format_target PUBLIC
  ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(fuzz_format_target PUBLIC snap_objects)

add_executable(fuzz_replay fuzz/replay.c)
target_link_libraries(fuzz_replay PRIVATE fuzz_format_target snap_objects)
add_test(NAME fuzz/format_replay
  COMMAND fuzz_replay ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus)

# Writes the corpus anew after a change of the format.
add_executable(fuzz_make_corpus fuzz/make_corpus.c)
target_include_directories(fuzz_make_corpus PRIVATE
  ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(fuzz_make_corpus PRIVATE snap_objects)

if(SNAP_FUZZ)
  add_executable(fuzz_format)
  target_link_libraries(fuzz_format PRIVATE fuzz_format_target snap_objects)
  target_link_options(fuzz_format PRIVATE -fsanitize=fuzzer)
endif()

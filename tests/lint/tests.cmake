# SPDX-License-Identifier: MIT
# The rules of CONTRIBUTING.md that a program can hold. They look at the sources
# only, so one build is enough for all.
if(NOT SNAP_SANITIZE AND NOT SNAP_COVERAGE AND NOT SNAP_FUZZ)
  foreach(rule layers sizes words man format shell)
    add_test(NAME lint/${rule}
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/lint/${rule}.sh ${PROJECT_SOURCE_DIR})
    set_tests_properties(lint/${rule} PROPERTIES SKIP_RETURN_CODE 77
      LABELS lint)
  endforeach()
  add_test(NAME lint/rules_catch_offenders
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/lint/test_rules.sh)
  set_tests_properties(lint/rules_catch_offenders PROPERTIES
    SKIP_RETURN_CODE 77 LABELS lint)
endif()

if(TARGET snapd)
  add_test(NAME lint/unit COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/lint/unit.sh
    $<TARGET_FILE:snapd> ${PROJECT_BINARY_DIR}/daemon/snapd.service)
  set_tests_properties(lint/unit PROPERTIES LABELS lint
    SKIP_RETURN_CODE 77)
endif()

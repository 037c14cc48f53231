# SPDX-License-Identifier: MIT
# What those see who use the library: the header, the symbols, the installed
# tree.
set(api ${CMAKE_CURRENT_SOURCE_DIR}/api)
set(header ${PROJECT_SOURCE_DIR}/include/libsnap.h)
set(strict -pedantic-errors -Wall -Wextra -Werror -fsyntax-only)

add_test(NAME api/header_is_c11
  COMMAND ${CMAKE_C_COMPILER} -std=c11 ${strict} -x c ${header})
add_test(NAME api/header_is_cxx17
  COMMAND ${CMAKE_CXX_COMPILER} -std=c++17 ${strict} -x c++ ${header})
add_test(NAME api/exports_are_the_header
  COMMAND ${api}/test_exports.sh $<TARGET_FILE:snap_shared> ${header}
    ${PROJECT_SOURCE_DIR}/libsnap/libsnap.map)

# Sanitizers bring symbols, and need flags, of their own.
if(NOT SNAP_SANITIZE AND NOT SNAP_COVERAGE)
  add_test(NAME api/library_stays_silent
    COMMAND ${api}/test_imports.sh $<TARGET_FILE:snap_shared>)

  set(stage ${PROJECT_BINARY_DIR}/stage)
  add_test(NAME api/install
    COMMAND ${api}/test_install.sh ${PROJECT_BINARY_DIR}
      ${PROJECT_SOURCE_DIR} ${stage})
  set_tests_properties(api/install PROPERTIES FIXTURES_SETUP stage)
  foreach(way find_package pkg_config)
    foreach(kind shared static)
      add_test(NAME api/${way}_${kind}
        COMMAND ${api}/test_consumer.sh ${way} ${kind} ${stage})
      set_tests_properties(api/${way}_${kind} PROPERTIES
        FIXTURES_REQUIRED stage)
    endforeach()
  endforeach()
  add_test(NAME api/readme_example
    COMMAND ${api}/test_readme.sh ${PROJECT_SOURCE_DIR}/README.md ${stage})
  set_tests_properties(api/readme_example PROPERTIES
    FIXTURES_REQUIRED stage SKIP_RETURN_CODE 77)
endif()

include(lint/tests.cmake)

# SPDX-License-Identifier: MIT

function(add_misuse_test name)
  add_executable(test_misuse_${name} misuse/test_${name}.c)
  target_link_libraries(test_misuse_${name} PRIVATE scene snap_static)
  add_test(NAME misuse/${name} COMMAND test_misuse_${name})
  set_tests_properties(misuse/${name} PROPERTIES SKIP_RETURN_CODE 77
    TIMEOUT 60)
endfunction()

add_misuse_test(calls)
add_misuse_test(regions)
set_tests_properties(misuse/regions PROPERTIES RESOURCE_LOCK nr_hugepages)
add_misuse_test(outputs)

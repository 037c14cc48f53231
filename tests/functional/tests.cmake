# SPDX-License-Identifier: MIT

# The examples, as a user runs them.
function(add_example_tests example)
  foreach(case IN LISTS ARGN)
    add_test(NAME functional/${example}_${case}
      COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/functional/test_${example}.sh
        ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${case})
    set_tests_properties(functional/${example}_${case} PROPERTIES
      SKIP_RETURN_CODE 77 TIMEOUT 300)
  endforeach()
endfunction()
add_example_tests(examples save_heap poll_loop cancel)
if(TARGET minivmm)
  add_example_tests(minivmm
    anon zstd thp memfd hugetlb check damaged refused usage no_kvm)
  set_tests_properties(functional/minivmm_hugetlb PROPERTIES
    RESOURCE_LOCK nr_hugepages)
endif()

# add_functional_test(NAME PROGRAM [LOCK RESOURCE] [ARGS ...]): one run of
# functional/test_PROGRAM.c, which uses nothing but libsnap.h.
add_library(scene STATIC lib/expect.c lib/scene.c lib/scene_check.c
  lib/mutator.c lib/proc.c lib/ram.c lib/tickets.c)
target_include_directories(scene PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(scene PUBLIC snap_flags PkgConfig::CMOCKA
  Threads::Threads)

function(add_functional_test name program)
  cmake_parse_arguments(arg "" "LOCK" "ARGS" ${ARGN})
  if(NOT TARGET test_${program})
    add_executable(test_${program} functional/test_${program}.c)
    target_link_libraries(test_${program} PRIVATE scene snap_static)
  endif()
  add_test(NAME functional/${name} COMMAND test_${program} ${arg_ARGS})
  set_tests_properties(functional/${name} PROPERTIES SKIP_RETURN_CODE 77
    TIMEOUT 180)
  if(arg_LOCK)
    set_tests_properties(functional/${name} PROPERTIES
      RESOURCE_LOCK ${arg_LOCK})
  endif()
endfunction()

foreach(group backing holes prearm layout option slow sink series)
  add_functional_test(exact_${group} exact ARGS "${group}_*" "*hugetlb*")
endforeach()
add_functional_test(exact_hugetlb exact LOCK nr_hugepages ARGS "*hugetlb*")
add_functional_test(window window ARGS "*" "*hugetlb*")
add_functional_test(window_hugetlb window LOCK nr_hugepages ARGS "*hugetlb*")
add_functional_test(prearm prearm)
add_functional_test(cancel cancel)
add_functional_test(sinks sinks)
add_functional_test(threads threads)
add_functional_test(other other)
add_functional_test(hazards hazards)
add_functional_test(audit audit)
target_link_libraries(test_sinks PRIVATE PkgConfig::JANSSON)

add_executable(make_image functional/make_image.c)
target_link_libraries(make_image PRIVATE image_maker snap_static)
add_example_tests(snapctl usage info verify cut export device_state exists
  damaged full cancel probe)

if(TARGET snapd)
  add_example_tests(redis load)
  add_example_tests(qemu tcg kvm memfd smp)
  add_executable(hostile functional/hostile.c)
  target_link_libraries(hostile PRIVATE snap_flags)
  add_example_tests(snapd usage json range refused hooks cancel full
    unprivileged)
  add_example_tests(daemon life cancel killed hostile)
endif()

# Attaching to other processes: library internals, so linked with the objects.
add_library(attach_targets STATIC lib/attach_targets.c lib/attach_steps.c)
target_link_libraries(attach_targets PUBLIC scene)
function(add_attach_test name)
  cmake_parse_arguments(arg "" "" "WRAP" ${ARGN})
  add_executable(test_${name} functional/test_${name}.c)
  target_link_libraries(test_${name} PRIVATE attach_targets snap_objects)
  foreach(symbol IN LISTS arg_WRAP)
    target_link_options(test_${name} PRIVATE -Wl,--wrap=${symbol})
  endforeach()
  add_test(NAME functional/${name} COMMAND test_${name})
  set_tests_properties(functional/${name} PROPERTIES SKIP_RETURN_CODE 77
    TIMEOUT 180)
endfunction()
add_attach_test(attach)
add_attach_test(attach_calls)
add_attach_test(attach_pitfalls)
add_attach_test(attach_steps WRAP sys_ptrace)

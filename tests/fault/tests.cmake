# SPDX-License-Identifier: MIT

# Linked with the library's objects, so that the linker can put the test's
# __wrap_ functions in the place of the named ones.
function(add_fault_test name)
  cmake_parse_arguments(arg "" "" "WRAP" ${ARGN})
  add_executable(test_fault_${name} fault/test_${name}.c)
  target_link_libraries(test_fault_${name} PRIVATE scene snap_objects)
  foreach(symbol IN LISTS arg_WRAP)
    target_link_options(test_fault_${name} PRIVATE -Wl,--wrap=${symbol})
  endforeach()
  add_test(NAME fault/${name} COMMAND test_fault_${name})
  set_tests_properties(fault/${name} PROPERTIES SKIP_RETURN_CODE 77
    TIMEOUT 300)
endfunction()

add_fault_test(alloc WRAP malloc calloc realloc aligned_alloc posix_memalign
  strdup free)
add_fault_test(syscalls WRAP sys_open sys_close sys_read sys_pread sys_write
  sys_pwrite sys_write_nowait sys_lseek sys_fallocate sys_ftruncate sys_fsync
  sys_fstat sys_stat sys_fstatfs sys_link sys_rename sys_rename_noreplace
  sys_unlink sys_ioctl sys_getdents sys_getfl sys_poll sys_eventfd sys_userfaultfd sys_mmap sys_munmap
  sys_madvise sys_process_vm_readv sys_process_vm_writev)
add_fault_test(kill)

# SPDX-License-Identifier: MIT
add_unit_test(bufpool WRAP sys_mmap sys_madvise sys_eventfd)
add_unit_test(output WRAP sys_open sys_fallocate sys_ftruncate sys_fsync
  sys_rename sys_rename_noreplace sys_fstatfs sys_pwrite)
add_unit_test(encode WRAP ZSTD_createCCtx ZSTD_compress2 thread_start
  writer_submit)
add_unit_test(writer WRAP io_uring_queue_init io_uring_register_buffers
  io_uring_submit_and_wait sys_pwrite sys_fsync sys_eventfd thread_start)
add_unit_test(writer_stream WRAP sys_write_nowait)
add_unit_test(pipeline)

# Makes images for the tests of the read side.
add_library(image_maker STATIC lib/image_maker.c)
target_include_directories(image_maker PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/libsnap ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(image_maker PUBLIC snap_flags PkgConfig::ZSTD)
add_unit_test(format LIBS image_maker)
add_unit_test(image LIBS image_maker WRAP sys_pread sys_read malloc calloc
  realloc)
add_unit_test(image_damage LIBS image_maker WRAP malloc calloc realloc)
add_unit_test(restore LIBS image_maker WRAP sys_pread sys_madvise thread_start)
set_tests_properties(unit/restore PROPERTIES RESOURCE_LOCK nr_hugepages)
add_unit_test(pagestate)
add_unit_test(coalesce)
add_unit_test(window)
add_unit_test(region)
add_unit_test(maps WRAP sys_read)
add_unit_test(stats)
add_unit_test(probe WRAP sys_open sys_userfaultfd)

# SPDX-License-Identifier: MIT
# What `cmake --install` puts where.  Everything finds the rest by relative
# paths, so the tree may be staged, moved or packaged.
include(CMakePackageConfigHelpers)

set(snap_cmakedir ${CMAKE_INSTALL_LIBDIR}/cmake/libsnap)
set(snap_pcdir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(dir BINDIR LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    message(FATAL_ERROR "CMAKE_INSTALL_${dir} must be relative to the prefix")
  endif()
endforeach()

# Our warning and sanitizer flags are no business of those who link the .a.
get_target_property(libs snap_static INTERFACE_LINK_LIBRARIES)
string(REPLACE "$<LINK_ONLY:snap_flags>"
  "$<BUILD_INTERFACE:$<LINK_ONLY:snap_flags>>" libs "${libs}")
set_property(TARGET snap_static PROPERTY INTERFACE_LINK_LIBRARIES "${libs}")

install(FILES include/libsnap.h TYPE INCLUDE)
foreach(kind shared static)
  install(TARGETS snap_${kind} EXPORT libsnap-${kind})
  install(EXPORT libsnap-${kind} NAMESPACE libsnap::
    DESTINATION ${snap_cmakedir})
endforeach()

configure_package_config_file(cmake/libsnapConfig.cmake.in
  ${PROJECT_BINARY_DIR}/libsnapConfig.cmake
  INSTALL_DESTINATION ${snap_cmakedir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/libsnapConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/libsnapConfig.cmake
  ${PROJECT_BINARY_DIR}/libsnapConfigVersion.cmake
  DESTINATION ${snap_cmakedir})

# Debian's libdir is a level deeper than others', hence computed.
file(RELATIVE_PATH snap_pc_to_prefix /${snap_pcdir} /)
string(REGEX REPLACE "/$" "" snap_pc_to_prefix "${snap_pc_to_prefix}")
configure_file(cmake/libsnap.pc.in ${PROJECT_BINARY_DIR}/libsnap.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/libsnap.pc DESTINATION ${snap_pcdir})

file(RELATIVE_PATH snap_bin_to_lib
  /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
foreach(program snapctl snapd snaplat)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES
      INSTALL_RPATH "$ORIGIN/${snap_bin_to_lib}")
    install(TARGETS ${program})
  endif()
endforeach()

foreach(section 1 3 5 8)
  file(GLOB pages CONFIGURE_DEPENDS man/*.${section})
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
file(GLOB documents CONFIGURE_DEPENDS README.md CHANGELOG.md LICENSE
  docs/*.md)
install(FILES ${documents} TYPE DOC)

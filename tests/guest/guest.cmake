# SPDX-License-Identifier: MIT
# The boot sector, and the program that checks its RAM.
add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/boot.bin
  COMMAND ${CMAKE_C_COMPILER} -m32 -c -o boot.o
    ${CMAKE_CURRENT_SOURCE_DIR}/guest/boot.S
  COMMAND ${CMAKE_LINKER} -m elf_i386 -Ttext=0x7c00 --oformat binary
    -o boot.bin boot.o
  DEPENDS guest/boot.S VERBATIM)
add_custom_target(boot_sector ALL DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/boot.bin)
add_executable(check_ram guest/check_ram.c)
target_link_libraries(check_ram PRIVATE snap_flags)

# For the preset `aarch64`: Debian's cross compiler, libraries from the folder of deploy/aarch64/sysroot.sh, and qemu-user, which
# runs what was built (tests, and `try_run`s of CMake's).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

get_filename_component(BEAMWRIGHT_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot ABSOLUTE)
set(CMAKE_SYSROOT ${BEAMWRIGHT_SYSROOT})
set(CMAKE_FIND_ROOT_PATH ${BEAMWRIGHT_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${BEAMWRIGHT_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${BEAMWRIGHT_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${BEAMWRIGHT_SYSROOT}/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;${BEAMWRIGHT_SYSROOT}")
# Headers of the distribution are no concern of our warnings.
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES "")

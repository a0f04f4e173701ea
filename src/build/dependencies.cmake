# The libraries that ringtrue stands on.

find_package(MPI REQUIRED COMPONENTS C)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SLEEF REQUIRED IMPORTED_TARGET sleef)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(MPFR REQUIRED IMPORTED_TARGET mpfr)

include("${CMAKE_CURRENT_LIST_DIR}/openblas.cmake")

# Tests only: the framework, and an independent authority to compare with.
if(BUILD_TESTING)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka>=1.1.5)
  find_path(RT_RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)
  mark_as_advanced(RT_RANDOM123_INCLUDE_DIR)
  add_library(rt_random123 INTERFACE)
  target_include_directories(rt_random123 SYSTEM INTERFACE "${RT_RANDOM123_INCLUDE_DIR}")
endif()

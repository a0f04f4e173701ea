# The libraries that ringtrue stands on.

if(RT_SMPI)
  # What SimGrid's smpicc does: its mpi.h, its time, and a program that is loaded once for each simulated process.
  find_path(RT_SMPI_INCLUDE_DIR smpi/mpi.h REQUIRED)
  find_library(RT_SIMGRID_LIBRARY simgrid REQUIRED)
  mark_as_advanced(RT_SMPI_INCLUDE_DIR RT_SIMGRID_LIBRARY)
  add_library(MPI::MPI_C INTERFACE IMPORTED)
  target_include_directories(MPI::MPI_C SYSTEM INTERFACE "${RT_SMPI_INCLUDE_DIR}/smpi")
  target_link_libraries(MPI::MPI_C INTERFACE "${RT_SIMGRID_LIBRARY}")
  target_compile_options(MPI::MPI_C INTERFACE "SHELL:-include ${RT_SMPI_INCLUDE_DIR}/smpi/smpi_helpers.h")
  target_compile_definitions(MPI::MPI_C INTERFACE RT_SMPI=1 SMPI_NO_OVERRIDE_MALLOC)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
else()
  find_package(MPI REQUIRED COMPONENTS C)
endif()
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

# OpenBLAS, by flavour.  One soname (libopenblas.so.0) serves three builds that share nothing but their
# interface: serial, pthread and OpenMP.  The pthread one keeps its own pool of threads beside OpenMP's and
# fights with it for the cores, so it must not be picked by accident.  Neither pkg-config nor the linker
# can tell: on Debian both follow update-alternatives.  Hence the explicit folder first, a program that
# asks the library itself (openblas_get_parallel) second, and the folder recorded as RUNPATH, which the
# loader searches before the alternative in /usr/lib.
#
# Sets RT_OPENBLAS_LIBRARY, RT_OPENBLAS_INCLUDE_DIR, RT_OPENBLAS_FLAVOUR (OpenMP | serial | pthread) and the
# imported target ringtrue::openblas.

find_library(RT_OPENBLAS_LIBRARY NAMES openblas PATH_SUFFIXES openblas-openmp
  DOC "OpenBLAS, OpenMP flavour")
find_path(RT_OPENBLAS_INCLUDE_DIR cblas.h
  PATH_SUFFIXES "${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp" openblas-openmp openblas
  DOC "Folder of OpenBLAS's cblas.h")
if(NOT RT_OPENBLAS_LIBRARY OR NOT RT_OPENBLAS_INCLUDE_DIR)
  pkg_check_modules(RT_OPENBLAS_PC QUIET openblas)
  find_library(RT_OPENBLAS_LIBRARY NAMES openblas HINTS ${RT_OPENBLAS_PC_LIBRARY_DIRS})
  find_path(RT_OPENBLAS_INCLUDE_DIR cblas.h HINTS ${RT_OPENBLAS_PC_INCLUDE_DIRS})
endif()
mark_as_advanced(RT_OPENBLAS_LIBRARY RT_OPENBLAS_INCLUDE_DIR)
if(NOT RT_OPENBLAS_LIBRARY OR NOT RT_OPENBLAS_INCLUDE_DIR)
  message(FATAL_ERROR "OpenBLAS not found.  Hint: apt-get install libopenblas-openmp-dev, or "
    "-DRT_OPENBLAS_LIBRARY=FILE -DRT_OPENBLAS_INCLUDE_DIR=FOLDER")
endif()

add_library(ringtrue::openblas UNKNOWN IMPORTED)
set_target_properties(ringtrue::openblas PROPERTIES
  IMPORTED_LOCATION "${RT_OPENBLAS_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${RT_OPENBLAS_INCLUDE_DIR}")

if(NOT RT_OPENBLAS_ASKED STREQUAL "${RT_OPENBLAS_LIBRARY};${RT_OPENBLAS_INCLUDE_DIR};${CMAKE_C_COMPILER}")
  unset(RT_OPENBLAS_RUN CACHE)
  unset(RT_OPENBLAS_COMPILED CACHE)
  try_run(RT_OPENBLAS_RUN RT_OPENBLAS_COMPILED
    "${PROJECT_BINARY_DIR}/openblas" "${CMAKE_CURRENT_LIST_DIR}/openblas_flavour.c"
    LINK_LIBRARIES ringtrue::openblas
    COMPILE_OUTPUT_VARIABLE rt_openblas_compile_text
    RUN_OUTPUT_VARIABLE rt_openblas_text)
  if(NOT RT_OPENBLAS_COMPILED)
    message(FATAL_ERROR "${RT_OPENBLAS_LIBRARY} with ${RT_OPENBLAS_INCLUDE_DIR}/cblas.h does not link "
      "as OpenBLAS:\n${rt_openblas_compile_text}")
  endif()
  if(NOT RT_OPENBLAS_RUN EQUAL 0)
    message(FATAL_ERROR "${RT_OPENBLAS_LIBRARY} cannot be asked for its flavour (${RT_OPENBLAS_RUN})")
  endif()
  string(STRIP "${rt_openblas_text}" rt_openblas_text)
  string(REGEX REPLACE ":.*" "" rt_openblas_flavour "${rt_openblas_text}")
  set(RT_OPENBLAS_FLAVOUR "${rt_openblas_flavour}" CACHE INTERNAL "")
  set(RT_OPENBLAS_CONFIG "${rt_openblas_text}" CACHE INTERNAL "")
  set(RT_OPENBLAS_ASKED "${RT_OPENBLAS_LIBRARY};${RT_OPENBLAS_INCLUDE_DIR};${CMAKE_C_COMPILER}"
    CACHE INTERNAL "")
endif()
message(STATUS "OpenBLAS flavour: ${RT_OPENBLAS_CONFIG} in ${RT_OPENBLAS_LIBRARY}")

if(RT_OPENBLAS_FLAVOUR STREQUAL "pthread")
  if(NOT RT_OPENBLAS_ALLOW_PTHREAD)
    message(FATAL_ERROR "${RT_OPENBLAS_LIBRARY} is OpenBLAS's pthread flavour, whose threads compete with "
      "OpenMP's for the cores.  Hint: apt-get install libopenblas-openmp-dev, then configure afresh; or "
      "-DRT_OPENBLAS_ALLOW_PTHREAD=ON, which drives it with one thread")
  endif()
elseif(NOT RT_OPENBLAS_FLAVOUR MATCHES "^(OpenMP|serial)$")
  message(FATAL_ERROR "${RT_OPENBLAS_LIBRARY} names no flavour that we know: '${RT_OPENBLAS_CONFIG}'")
endif()

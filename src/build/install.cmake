# What is installed: the library, its headers, the command, a CMake package and a pkg-config file.

set(rt_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/ringtrue")

# The installed command finds a shared library beside it, wherever the prefix is moved.
file(RELATIVE_PATH rt_bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
set_target_properties(ringtrue_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${rt_bin_to_lib}")

install(TARGETS ringtrue ringtrue_cli EXPORT ringtrueTargets
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(EXPORT ringtrueTargets NAMESPACE ringtrue:: DESTINATION "${rt_package_dir}")

# A static library's users link what it stands on; a shared one brings that itself.
get_target_property(rt_library_type ringtrue TYPE)
set(RT_PACKAGE_STATIC OFF)
if(rt_library_type STREQUAL "STATIC_LIBRARY")
  set(RT_PACKAGE_STATIC ON)
endif()
configure_package_config_file("${PROJECT_SOURCE_DIR}/src/build/ringtrueConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/ringtrueConfig.cmake" INSTALL_DESTINATION "${rt_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/ringtrueConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/ringtrueConfig.cmake" "${PROJECT_BINARY_DIR}/ringtrueConfigVersion.cmake"
  DESTINATION "${rt_package_dir}")

# pkg-config: the private libraries become public ones when the library is static.
get_filename_component(rt_openblas_dir "${RT_OPENBLAS_LIBRARY}" DIRECTORY)
set(rt_libs_private "-L${rt_openblas_dir} -lopenblas -Wl,-rpath,${rt_openblas_dir}")
foreach(library IN LISTS MPI_C_LIBRARIES OpenMP_C_LIBRARIES)
  string(APPEND rt_libs_private " ${library}")
endforeach()
string(APPEND rt_libs_private " -lm")
set(rt_requires_private "sleef jansson libxxhash mpfr")
if(RT_PACKAGE_STATIC)
  set(RT_PC_REQUIRES "Requires: ${rt_requires_private}")
  set(RT_PC_LIBS "-lringtrue ${rt_libs_private}")
else()
  set(RT_PC_REQUIRES "Requires.private: ${rt_requires_private}")
  set(RT_PC_LIBS "-lringtrue")
endif()
file(RELATIVE_PATH RT_PC_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" RT_PC_PREFIX "${RT_PC_PREFIX}")
configure_file("${PROJECT_SOURCE_DIR}/src/build/ringtrue.pc.in" "${PROJECT_BINARY_DIR}/ringtrue.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/ringtrue.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# How tests are declared: rt_unit_test, rt_mpi_test and rt_cli_test, one line each in tests.cmake.
# Exit code 77 means skipped.  Names: unit.NAME, mpiN.NAME, cli.NAME, house.NAME, which are also their labels' roots.

# Open MPI refuses to run as root and with more ranks than cores unless told that this is meant; who waits leaves the
# core to others, which on a busy machine is the difference between seconds and minutes.
set(RT_MPI_ENVIRONMENT
  OMPI_ALLOW_RUN_AS_ROOT=1
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1
  OMPI_MCA_mpi_yield_when_idle=1
  OMPI_MCA_btl_vader_single_copy_mechanism=none
  OMPI_MCA_hwloc_base_binding_policy=none)

set(RT_TEST_ENVIRONMENT
  "RT_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
  "RT_FIELD_DATA=${RT_FIELD_DATA}"
  "RINGTRUE=${PROJECT_BINARY_DIR}/ringtrue"
  "MPIEXEC=${MPIEXEC_EXECUTABLE}"
  ${RT_MPI_ENVIRONMENT})
set(rt_suppressions "${PROJECT_SOURCE_DIR}/tests/suppressions")
if(RT_SANITIZE MATCHES "address")
  # Open MPI keeps memory until exit; its frames are recognised only by the slow unwinder.
  list(APPEND RT_TEST_ENVIRONMENT
    "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1"
    "LSAN_OPTIONS=fast_unwind_on_malloc=0:print_suppressions=0:suppressions=\"${rt_suppressions}/lsan.supp\"")
endif()
if(RT_SANITIZE MATCHES "undefined")
  list(APPEND RT_TEST_ENVIRONMENT "UBSAN_OPTIONS=print_stacktrace=1")
endif()
if(RT_SANITIZE MATCHES "thread")
  list(APPEND RT_TEST_ENVIRONMENT
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1")
endif()

set(rt_test_timeout 120)
if(RT_SANITIZE)
  set(rt_test_timeout 600)
endif()

function(rt_test_target target)
  rt_own_target(${target})
  if(RT_SANITIZE) # check.h thins out long lists of cases
    target_compile_definitions(${target} PRIVATE RT_TEST_SANITIZED)
  endif()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${target} PRIVATE ringtrue ringtrue::openblas MPI::MPI_C OpenMP::OpenMP_C
    PkgConfig::JANSSON PkgConfig::XXHASH PkgConfig::CMOCKA PkgConfig::MPFR rt_random123 m)
endfunction()

# A file that several programs share, and a test that several lines run, is compiled once.
function(rt_test_program target)
  if(TARGET ${target})
    return()
  endif()
  add_executable(${target})
  foreach(file IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER "test_part_${file}" part)
    if(NOT TARGET ${part})
      add_library(${part} OBJECT "${PROJECT_SOURCE_DIR}/tests/${file}")
      rt_test_target(${part})
    endif()
    target_sources(${target} PRIVATE "$<TARGET_OBJECTS:${part}>")
  endforeach()
  rt_test_target(${target})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endfunction()

function(rt_test_properties name label)
  set_tests_properties(${name} PROPERTIES
    LABELS ${label} TIMEOUT ${rt_test_timeout} SKIP_RETURN_CODE 77 ENVIRONMENT "${RT_TEST_ENVIRONMENT};${ARGN}")
endfunction()

# rt_unit_test(NAME FILE...): one process.
function(rt_unit_test name)
  rt_test_program(test_${name} ${ARGN})
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/scratch/unit.${name}")
  add_test(NAME unit.${name} COMMAND test_${name} WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/scratch/unit.${name}")
  rt_test_properties(unit.${name} unit)
endfunction()

# rt_mpi_test(NAME PROCESSES FILE...): the program is built once, whatever the number of lines for it.
function(rt_mpi_test name processes)
  rt_test_program(test_mpi_${name} ${ARGN})
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/scratch/mpi${processes}.${name}")
  add_test(NAME mpi${processes}.${name}
    COMMAND "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} ${processes} "$<TARGET_FILE:test_mpi_${name}>"
    WORKING_DIRECTORY "${PROJECT_BINARY_DIR}/scratch/mpi${processes}.${name}")
  rt_test_properties(mpi${processes}.${name} mpi OMP_NUM_THREADS=1)
  set_tests_properties(mpi${processes}.${name} PROPERTIES PROCESSORS ${processes})
endfunction()

# rt_cli_test(NAME SCRIPT [ARGUMENT...]): sh SCRIPT, in a working folder that is empty at first.
function(rt_cli_test name script)
  add_test(NAME cli.${name}
    COMMAND sh "${PROJECT_SOURCE_DIR}/tests/fresh.sh" "${PROJECT_BINARY_DIR}/scratch/cli.${name}"
    "${PROJECT_SOURCE_DIR}/tests/${script}" ${ARGN})
  rt_test_properties(cli.${name} cli OMP_WAIT_POLICY=passive)
  # Most start one small command after the other; those that start several processes, or a compiler, need both.
  file(STRINGS "${PROJECT_SOURCE_DIR}/tests/${script}" several REGEX "(^|[^a-z])mpi [0-9$]|--parallel 2")
  if(several)
    set_tests_properties(cli.${name} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# install.consumer: a project built against the installed package.
function(rt_consumer_test)
  get_filename_component(openblas_dir "${RT_OPENBLAS_LIBRARY}" DIRECTORY)
  set(flags)
  if(RT_SANITIZE)
    set(flags "-fsanitize=${RT_SANITIZE}")
  endif()
  add_test(NAME install.consumer
    COMMAND sh "${PROJECT_SOURCE_DIR}/tests/fresh.sh" "${PROJECT_BINARY_DIR}/scratch/install.consumer"
    "${PROJECT_SOURCE_DIR}/tests/consumer.sh" "${PROJECT_BINARY_DIR}" "$<CONFIG>" "${CMAKE_C_COMPILER}"
    "${CMAKE_COMMAND}" "${CMAKE_GENERATOR}" "${openblas_dir}" "${flags}")
  rt_test_properties(install.consumer install)
endfunction()

# house.NAME: rules about the sources and what the compiler made of them.
# rt_house_test(NAME LABEL SCRIPT [ARGUMENT...])
function(rt_house_test name label script)
  add_test(NAME house.${name}
    COMMAND sh "${PROJECT_SOURCE_DIR}/tests/fresh.sh" "${PROJECT_BINARY_DIR}/scratch/house.${name}"
    "${PROJECT_SOURCE_DIR}/tests/${script}" ${ARGN})
  rt_test_properties(house.${name} ${label})
endfunction()

function(rt_house_tests)
  rt_house_test(bans house house_bans.sh)
  rt_house_test(headers_c house house_headers.sh "${CMAKE_C_COMPILER}" c)
  rt_house_test(headers_cxx house house_headers.sh "${CMAKE_C_COMPILER}" c++)
  rt_house_test(fused house house_fused.sh "${PROJECT_BINARY_DIR}" "${CMAKE_C_COMPILER}" "${CMAKE_C_FLAGS}")
  # Its own label: the ThreadSanitizer preset runs it too.
  rt_house_test(threads threads house_threads.sh)
  rt_unit_test(contraction test_contraction.c contraction_probe.c)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set_source_files_properties(tests/contraction_probe.c PROPERTIES COMPILE_OPTIONS -mfma)
  endif()
endfunction()

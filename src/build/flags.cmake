# Flags of our own targets; nothing global, and nothing of this reaches those who link the library.

# Warnings that gcc 12 and clang 14 both know and that mpi.h, cblas.h and cmocka.h pass as system headers.
add_library(rt_warnings INTERFACE)
target_compile_options(rt_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wstrict-prototypes
  -Wmissing-prototypes -Wold-style-definition -Wvla -Wdouble-promotion -Wfloat-equal -Wundef
  -Wcast-qual -Wcast-align -Wwrite-strings -Wformat=2 -Wnull-dereference -Wswitch-enum)
if(RT_WERROR)
  target_compile_options(rt_warnings INTERFACE -Werror)
endif()

# The language and the arithmetic: a * b + c stays two roundings unless the source says fma.
add_library(rt_language INTERFACE)
target_compile_features(rt_language INTERFACE c_std_11)
target_compile_definitions(rt_language INTERFACE _POSIX_C_SOURCE=200809L _DEFAULT_SOURCE)
target_compile_options(rt_language INTERFACE -ffp-contract=off)

set(rt_sanitizers "" address undefined thread "address,undefined")
if(NOT "${RT_SANITIZE}" IN_LIST rt_sanitizers)
  message(FATAL_ERROR "RT_SANITIZE=${RT_SANITIZE}: allowed are address, undefined, thread and "
    "address,undefined, or nothing")
endif()
if(RT_SANITIZE)
  target_compile_options(rt_language INTERFACE
    -fsanitize=${RT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(rt_language INTERFACE -fsanitize=${RT_SANITIZE})
endif()
if(RT_SANITIZE STREQUAL "thread" AND NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "RT_SANITIZE=thread needs clang: libgomp's barriers are invisible to gcc's "
    "ThreadSanitizer and look like races.  Hint: -DCMAKE_C_COMPILER=clang")
endif()

function(rt_own_target target)
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:rt_language> $<BUILD_INTERFACE:rt_warnings>)
endfunction()

# rrdma_layer(NAME SOURCES ... [TESTS ...] [LINKS ...])
#
# Declares the static library of one folder, and one test program of its *_test.cc files (ctest name: unit.NAME). A
# layer links only the layers that it may include. The `tidy` test checks the same rule on the #include lines.
set(RRDMA_WARNINGS
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual -Wno-missing-field-initializers
  # In a unity build, file-local names share one translation unit. Such shadowing is harmless; only GCC can tell it from
  # shadowing of locals.
  $<$<AND:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>,$<CXX_COMPILER_ID:GNU>>:-Wno-shadow;-Wshadow=local>
  $<$<AND:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>,$<NOT:$<CXX_COMPILER_ID:GNU>>>:-Wno-shadow>
  $<$<AND:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>
  # At -O1, GCC 12 takes an object behind a checked pointer for one of no size.
  $<$<AND:$<CONFIG:RelWithDebInfo>,$<CXX_COMPILER_ID:GNU>>:-Wno-stringop-overflow>
  # Newer clangs warn of what the header of std::stable_sort of GCC 12 calls.
  $<$<AND:$<CXX_COMPILER_ID:Clang>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,15>>:-Wno-deprecated-declarations>
  $<$<BOOL:${RRDMA_WERROR}>:-Werror>
  -fno-omit-frame-pointer)
add_library(rrdma_options INTERFACE)
target_include_directories(rrdma_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(rrdma_options INTERFACE ${RRDMA_WARNINGS})
# At link time, GCC 12 mistakes an insertion into an empty std::vector for a write to no memory. Every source has
# already passed these warnings.
target_link_options(rrdma_options INTERFACE
  $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>)

function(rrdma_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;TESTS;LINKS" ${ARGN})
  add_library(rrdma_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(rrdma_${name} PUBLIC rrdma_options ${ARG_LINKS})
  if(RRDMA_TESTS AND ARG_TESTS)
    rrdma_test(unit.${name} SOURCES ${ARG_TESTS} LINKS rrdma_${name})
    # Not optimised: a quarter less time to compile. The layer itself is.
    target_compile_options(unit_${name}_test PRIVATE $<$<CONFIG:RelWithDebInfo>:-O0>)
  endif()
endfunction()

# rrdma_cheap(TARGET): optimises for compile time, for code that runs once. -foptimize-sibling-calls lets a coroutine
# continue in another one without growing the stack.
set(RRDMA_CHEAP $<$<CONFIG:RelWithDebInfo>:-O1> $<$<CONFIG:RelWithDebInfo>:-foptimize-sibling-calls> $<$<CONFIG:RelWithDebInfo>:-g1>)
function(rrdma_cheap target)
  target_compile_options(${target} PRIVATE ${RRDMA_CHEAP})
endfunction()

# rrdma_small(TARGET): optimises a release for size, for code that runs at the start, on errors or for each connection, and
# that every program loads with librrdma.so.1. The data path is fast (-O3). The demo is to compile soon, not to be small.
set(RRDMA_SMALL $<$<AND:$<CONFIG:Release>,$<NOT:$<BOOL:${RRDMA_DEMO}>>>:-Os>)
function(rrdma_small target)
  target_compile_options(${target} PRIVATE ${RRDMA_SMALL})
endfunction()

# rrdma_test(CTEST_NAME SOURCES ... [LINKS ...] [LABELS ...] [TIMEOUT s])
function(rrdma_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  string(REPLACE "." "_" target "${name}_test")
  add_executable(${target} ${ARG_SOURCES})
  rrdma_cheap(${target})
  target_link_libraries(${target} PRIVATE rrdma_options ${ARG_LINKS} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${target})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

# rrdma_left_out(WHAT REASON): a part of the tree that this configuration does not build. scripts/build shows it,
# left-out.txt in the build folder keeps it.
function(rrdma_left_out what reason)
  message(STATUS "left out: ${what}: ${reason}")
  file(APPEND ${CMAKE_BINARY_DIR}/left-out.txt "left out: ${what}: ${reason}\n")
endfunction()
file(REMOVE ${CMAKE_BINARY_DIR}/left-out.txt)

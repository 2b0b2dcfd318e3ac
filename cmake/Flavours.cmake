# Options that a preset may enable for the whole tree: sanitizers, coverage counters, and ccache if it is installed. A
# preset only makes the choice; this file defines the flags.
set(RRDMA_SANITIZE "" CACHE STRING "sanitizers to build with: address,undefined or thread")
option(RRDMA_COVERAGE "count executed lines with gcov" OFF)

find_program(RRDMA_CCACHE ccache)
mark_as_advanced(RRDMA_CCACHE)
if(RRDMA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${RRDMA_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${RRDMA_CCACHE})
endif()

# GCC spends a tenth of the time of a large source on collecting garbage: let it use 200 MiB more instead.
add_compile_options("$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-expand=100 --param ggc-min-heapsize=786432>")

if(RRDMA_PORTABLE)
  # The machine may have older libraries of the compiler. Until glibc 2.34, threads and dlopen were libraries of their own.
  add_compile_definitions(RRDMA_PORTABLE)
  add_link_options(-static-libstdc++ -static-libgcc)
  # The linker drops functions of static libraries that nothing calls.
  add_compile_options(-ffunction-sections -fdata-sections)
  add_link_options(-Wl,--gc-sections)
  set(CMAKE_CXX_STANDARD_LIBRARIES "${CMAKE_CXX_STANDARD_LIBRARIES} -Wl,--push-state,--no-as-needed -lpthread -ldl -lrt -Wl,--pop-state")
endif()

if(RRDMA_SANITIZE)
  # A report ends the program, so that a test cannot pass with one. No vptr check: types with hidden visibility in
  # this build differ from those in libfmt. No check of function types by clang: on x86-64, clang 14 cannot emit it
  # for coroutines.
  add_compile_options(-fsanitize=${RRDMA_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all
                      $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
  add_link_options(-fsanitize=${RRDMA_SANITIZE})
endif()
if(RRDMA_FUZZ)
  # Coverage feedback from every layer, not only from the fuzz targets.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(RRDMA_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()

# What RRDMA builds on; every one is a Debian package (scripts/packages.txt).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
if(RRDMA_TESTS)
  find_package(GTest REQUIRED)
endif()
if(RRDMA_TESTS OR RRDMA_BENCH)
  # Headers only, for include/rrdma/comm/asio.h: its test, its example, and what it is measured beside.
  find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
  add_library(rrdma_asio INTERFACE)
  target_include_directories(rrdma_asio SYSTEM INTERFACE ${ASIO_INCLUDE_DIR})
  target_compile_definitions(rrdma_asio INTERFACE ASIO_STANDALONE)
endif()
if(RRDMA_BENCH)
  find_package(benchmark REQUIRED)
endif()

# The shared secret of rrdma::rpc.
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
# Its statistics in the text format of Prometheus.
find_package(prometheus-cpp CONFIG REQUIRED)
# Messages of rrdma::rpc: the generator of stubs and what is generated. The rest of the tree does without.
find_package(Protobuf 3.21)
if(Protobuf_FOUND AND TARGET protobuf::libprotoc AND TARGET protobuf::protoc)
  set(RRDMA_PROTOBUF ON)
  include(RrdmaProtobuf)
else()
  set(RRDMA_PROTOBUF OFF)
  message(STATUS "protobuf is missing: protoc-gen-rrdma, its tests and its examples are left out")
endif()

find_path(ISAL_INCLUDE_DIR isa-l.h REQUIRED)
find_library(ISAL_LIBRARY NAMES libisal.a isal REQUIRED)
add_library(rrdma_isal INTERFACE)
target_include_directories(rrdma_isal SYSTEM INTERFACE ${ISAL_INCLUDE_DIR})
target_link_libraries(rrdma_isal INTERFACE ${ISAL_LIBRARY})

# {fmt} is compiled in, once: the library that is loaded into other people's programs must not bring a shared one
# along, Debian has no static one, and header-only costs each file that formats something six seconds.
add_library(rrdma_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt_once.cc)
get_target_property(RRDMA_FMT_INCLUDES fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(rrdma_fmt SYSTEM PUBLIC ${RRDMA_FMT_INCLUDES})

pkg_check_modules(LIBNL REQUIRED IMPORTED_TARGET libnl-route-3.0)
add_library(rrdma_netlink INTERFACE)
target_link_libraries(rrdma_netlink INTERFACE PkgConfig::LIBNL)

find_path(URING_INCLUDE_DIR liburing.h REQUIRED)
find_library(URING_LIBRARY NAMES liburing.a uring REQUIRED)
add_library(rrdma_uring INTERFACE)
target_include_directories(rrdma_uring SYSTEM INTERFACE ${URING_INCLUDE_DIR})
target_link_libraries(rrdma_uring INTERFACE ${URING_LIBRARY})

# The server of `rrdma inspect` and the packed data of its reports; static, so that `rrdma` loads on other systems too.
find_path(EVENT_INCLUDE_DIR event2/http.h REQUIRED)
find_library(EVENT_EXTRA_LIBRARY NAMES libevent_extra.a event_extra REQUIRED)
find_library(EVENT_CORE_LIBRARY NAMES libevent_core.a event_core REQUIRED)
add_library(rrdma_http INTERFACE)
target_include_directories(rrdma_http SYSTEM INTERFACE ${EVENT_INCLUDE_DIR})
target_link_libraries(rrdma_http INTERFACE ${EVENT_EXTRA_LIBRARY} ${EVENT_CORE_LIBRARY})
find_path(ZLIB_INCLUDE_DIR zlib.h REQUIRED)
find_library(ZLIB_LIBRARY NAMES libz.a z REQUIRED)
add_library(rrdma_zlib INTERFACE)
target_include_directories(rrdma_zlib SYSTEM INTERFACE ${ZLIB_INCLUDE_DIR})
target_link_libraries(rrdma_zlib INTERFACE ${ZLIB_LIBRARY})

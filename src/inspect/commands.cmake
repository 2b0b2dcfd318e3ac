# `rrdma inspect` and `rrdma trace`; src/tools/CMakeLists.txt includes this file. The built page is committed
# (inspector/README.md), so this needs no npm.
set(RRDMA_PAGE ${CMAKE_SOURCE_DIR}/inspector/dist/inspector.html)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${RRDMA_PAGE})
file(READ ${RRDMA_PAGE} RRDMA_PAGE_OCTETS HEX)
string(REGEX REPLACE "(..)" "0x\\1," RRDMA_PAGE_OCTETS "${RRDMA_PAGE_OCTETS}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/page.cc.in ${CMAKE_CURRENT_BINARY_DIR}/page.cc @ONLY)

rrdma_commands(inspect COMMANDS inspect SOURCES admission.cc analysis.cc browser.cc orders/capture_desk.cc capture_image.cc clocks.cc exchange.cc causes/explanations.cc export.cc orders/fault_desk.cc
  finding_text.cc handshakes.cc inspect_command.cc live_watch.cc perfetto.cc causes/repairs.cc rpc_calls.cc server.cc sightings.cc LINKS rrdma_http rrdma_zlib)
rrdma_commands(trace COMMANDS trace SOURCES trace_command.cc)
list(APPEND RRDMA_COMMAND_SOURCES ${CMAKE_CURRENT_BINARY_DIR}/page.cc)

set(analysis analysis.cc clocks.cc exchange.cc causes/explanations.cc handshakes.cc causes/repairs.cc sightings.cc)
list(TRANSFORM analysis PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
set(RRDMA_CAPTURE_READERS ${analysis})
foreach(source capture_image.cc export.cc perfetto.cc)
  list(APPEND RRDMA_CAPTURE_READERS ${CMAKE_CURRENT_LIST_DIR}/${source})
endforeach()

if(RRDMA_TESTS)
  rrdma_test(unit.inspect
    SOURCES ${analysis} ${CMAKE_CURRENT_LIST_DIR}/admission.cc ${CMAKE_CURRENT_LIST_DIR}/analysis_test.cc
      ${CMAKE_CURRENT_LIST_DIR}/orders/fault_desk.cc decode/connections.cc interrupt.cc own_command.cc
    LINKS rrdma_dissection rrdma_host)
endif()

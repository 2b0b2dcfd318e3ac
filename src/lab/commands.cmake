# `rrdma lab`; src/tools/CMakeLists.txt includes this file.
rrdma_commands(lab COMMANDS lab SOURCES lab_command.cc lab_network.cc lab_space.cc link_faults.cc link_shape.cc link_traffic.cc picture.cc topology.cc topology_file.cc)

if(RRDMA_TESTS)
  set(tested link_faults.cc link_faults_test.cc link_shape.cc link_shape_test.cc topology.cc topology_test.cc)
  list(TRANSFORM tested PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
  rrdma_test(unit.lab SOURCES ${tested} LINKS rrdma_link rrdma_base)
endif()

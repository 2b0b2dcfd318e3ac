# rrdma_product(TARGET...): declares programs and libraries for users, as opposed to tests. They are part of the
# target `products` (`make build`) and of `make install`. Programs go to bin/, shared libraries to lib/.
add_custom_target(products)

function(rrdma_product)
  foreach(target ${ARGN})
    get_property(known GLOBAL PROPERTY RRDMA_PRODUCTS)
    if(NOT target IN_LIST known)
      set_property(GLOBAL APPEND PROPERTY RRDMA_PRODUCTS ${target})
      add_dependencies(products ${target})
      install(TARGETS ${target}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
    endif()
  endforeach()
endfunction()

# The known products, as far as they exist in this tree, and their files: manual pages, completion, and the systemd
# units of the system daemon and the user daemon.
function(rrdma_known_products)
  foreach(target rrdma rrdmad rrdma_preload rrdma_memory)
    if(TARGET ${target})
      rrdma_product(${target})
    endif()
  endforeach()
  if(RRDMA_DEMO)
    # Ninja builds in this order: the command last, because its two unity files keep two cores busy to the end.
    add_custom_target(demo_programs DEPENDS comm_echo rrdma_preload rrdmad rrdma)
  endif()
  # Built for learners; not installed.
  if(TARGET examples)
    add_dependencies(products examples)
  endif()
  foreach(section 1 3 5 7 8)
    file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.${section})
    if(pages)
      install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    endif()
  endforeach()
  # For tests of other projects: include(RrdmaTest).
  install(FILES ${CMAKE_SOURCE_DIR}/cmake/RrdmaTest.cmake ${CMAKE_SOURCE_DIR}/cmake/rrdma_test.sh DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rrdma)
  install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/README.zh-CN.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(FILES ${CMAKE_SOURCE_DIR}/inspector/LICENSES.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/inspector)
  # The folders in which Wireshark searches for extcap interfaces, plugins and profiles.
  install(FILES ${CMAKE_SOURCE_DIR}/packaging/wireshark/plugins/rrdma_rpc.lua DESTINATION ${CMAKE_INSTALL_LIBDIR}/wireshark/plugins)
  install(PROGRAMS ${CMAKE_SOURCE_DIR}/packaging/wireshark/extcap/rrdma DESTINATION ${CMAKE_INSTALL_LIBDIR}/wireshark/extcap)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/packaging/wireshark/profiles DESTINATION ${CMAKE_INSTALL_DATADIR}/wireshark)
  install(FILES ${CMAKE_SOURCE_DIR}/packaging/completion/rrdma.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME rrdma)
  install(FILES ${CMAKE_SOURCE_DIR}/packaging/completion/rrdma.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _rrdma)
  install(FILES ${CMAKE_SOURCE_DIR}/packaging/completion/rrdma.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  # Both units have the same name. When Debian 12 writes maintainer scripts, it searches only /lib for system units.
  set(RRDMA_SYSTEM_UNITS lib/systemd/system CACHE STRING "where the unit of the system's daemon goes")
  foreach(scope system user)
    configure_file(${CMAKE_SOURCE_DIR}/packaging/systemd/${scope}/rrdmad.service.in ${CMAKE_BINARY_DIR}/units/${scope}/rrdmad.service @ONLY)
  endforeach()
  install(FILES ${CMAKE_BINARY_DIR}/units/system/rrdmad.service DESTINATION ${RRDMA_SYSTEM_UNITS})
  install(FILES ${CMAKE_BINARY_DIR}/units/user/rrdmad.service DESTINATION lib/systemd/user)
endfunction()

# vcpkg install rrdma --overlay-ports=packaging/vcpkg. Builds the libraries of the tree that contains this file.
set(VCPKG_POLICY_ALLOW_EMPTY_FOLDERS enabled)
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DRRDMA_DEVICE=OFF -DRRDMA_TESTS=OFF -DRRDMA_BENCH=OFF -DRRDMA_WERROR=OFF)
vcpkg_cmake_install()
foreach(package rrdma-comm rrdma-rpc)
  vcpkg_cmake_config_fixup(PACKAGE_NAME ${package} CONFIG_PATH lib/cmake/${package} DO_NOT_DELETE_PARENT_CONFIG_PATH)
endforeach()
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES protoc-gen-rrdma rrdma-rpc AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")

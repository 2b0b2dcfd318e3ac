# rrdma_protobuf_generate(TARGET target PROTOS file.proto... [IMPORT_DIRS folder...]): generates messages and coroutine
# stubs from .proto files, and adds them to the target. Links the target with protobuf and rrdma::rpc.
#
# IMPORT_DIRS are the folders that `import` statements start from, the current source folder by default. A file keeps
# its path below the first of them that contains it: with IMPORT_DIRS protos, protos/shop/order.proto becomes
# shop/order.pb.h and shop/order.rrdma.h, in the include path of the target and of those that link it. A file below none
# of them is generated as if its own folder were one.
function(rrdma_protobuf_generate)
  cmake_parse_arguments(ARG "" "TARGET" "PROTOS;IMPORT_DIRS" ${ARGN})
  if(NOT ARG_TARGET OR NOT ARG_PROTOS OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "rrdma_protobuf_generate(TARGET target PROTOS file.proto... [IMPORT_DIRS folder...])")
  endif()
  if(NOT ARG_IMPORT_DIRS)
    set(ARG_IMPORT_DIRS ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  set(roots)
  foreach(folder ${ARG_IMPORT_DIRS})
    get_filename_component(folder ${folder} ABSOLUTE)
    list(APPEND roots ${folder})
  endforeach()
  set(all)
  foreach(proto ${ARG_PROTOS})
    get_filename_component(path ${proto} ABSOLUTE)
    list(APPEND all ${path})
  endforeach()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${ARG_TARGET}_protobuf)
  file(MAKE_DIRECTORY ${out})
  foreach(path ${all})
    get_filename_component(folder ${path} DIRECTORY)
    get_filename_component(stem ${path} NAME_WE)
    set(below ..)
    foreach(root ${roots})
      file(RELATIVE_PATH below ${root} ${folder})
      if(NOT below MATCHES "^\\.\\.")
        break()
      endif()
    endforeach()
    set(imports ${roots})
    if(below MATCHES "^\\.\\.")
      set(below "")
      list(APPEND imports ${folder})
    endif()
    list(TRANSFORM imports PREPEND --proto_path=)
    if(below)
      set(stem ${below}/${stem})
      file(MAKE_DIRECTORY ${out}/${below})
    endif()
    set(written ${out}/${stem}.pb.cc ${out}/${stem}.pb.h ${out}/${stem}.rrdma.h)
    # A file may import any of the others.
    add_custom_command(OUTPUT ${written}
      COMMAND protobuf::protoc ${imports} --cpp_out=${out}
        --plugin=protoc-gen-rrdma=$<TARGET_FILE:rrdma::protoc-gen-rrdma> --rrdma_out=${out} ${path}
      DEPENDS ${all} rrdma::protoc-gen-rrdma
      VERBATIM)
    # Disable warnings in generated code.
    set_source_files_properties(${out}/${stem}.pb.cc PROPERTIES COMPILE_OPTIONS "-w" SKIP_UNITY_BUILD_INCLUSION ON)
    target_sources(${ARG_TARGET} PRIVATE ${written})
  endforeach()
  target_include_directories(${ARG_TARGET} SYSTEM PUBLIC $<BUILD_INTERFACE:${out}>)
  target_link_libraries(${ARG_TARGET} PUBLIC rrdma::rpc protobuf::libprotobuf)
endfunction()

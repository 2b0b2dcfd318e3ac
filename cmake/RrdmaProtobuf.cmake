# rrdma_protobuf_generate(TARGET target PROTOS file.proto...): generates messages and coroutine stubs from .proto
# files. Adds the sources and the include path of NAME.pb.h and NAME.rrdma.h to the target, and links it with protobuf
# and rrdma::rpc.
function(rrdma_protobuf_generate)
  cmake_parse_arguments(ARG "" "TARGET" "PROTOS" ${ARGN})
  if(NOT ARG_TARGET OR NOT ARG_PROTOS)
    message(FATAL_ERROR "rrdma_protobuf_generate(TARGET target PROTOS file.proto...)")
  endif()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${ARG_TARGET}_protobuf)
  file(MAKE_DIRECTORY ${out})
  foreach(proto ${ARG_PROTOS})
    get_filename_component(path ${proto} ABSOLUTE)
    get_filename_component(folder ${path} DIRECTORY)
    get_filename_component(stem ${path} NAME_WE)
    set(written ${out}/${stem}.pb.cc ${out}/${stem}.pb.h ${out}/${stem}.rrdma.h)
    add_custom_command(OUTPUT ${written}
      COMMAND protobuf::protoc --proto_path=${folder} --cpp_out=${out}
        --plugin=protoc-gen-rrdma=$<TARGET_FILE:rrdma::protoc-gen-rrdma> --rrdma_out=${out} ${path}
      DEPENDS ${path} rrdma::protoc-gen-rrdma
      VERBATIM)
    # Disable warnings in generated code.
    set_source_files_properties(${out}/${stem}.pb.cc PROPERTIES COMPILE_OPTIONS "-w" SKIP_UNITY_BUILD_INCLUSION ON)
    target_sources(${ARG_TARGET} PRIVATE ${written})
  endforeach()
  target_include_directories(${ARG_TARGET} SYSTEM PRIVATE ${out})
  target_link_libraries(${ARG_TARGET} PRIVATE rrdma::rpc protobuf::libprotobuf)
endfunction()

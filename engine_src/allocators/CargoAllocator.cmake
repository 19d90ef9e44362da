# kv_cargo_allocator(TARGET NAME) builds the allocator that allocators/NAME/Cargo.lock pins and imports its archive.
#
# Cargo serves as fetcher and checksum guard; the crate's build script runs the allocator's own configure and make, or the
# compiler. `check` is enough: it runs build scripts and skips Rust code generation. -g1 keeps the archive a tenth of its
# default size. ENGINE_ALLOCATOR_CACHE may name a directory that several build trees share.

set(ENGINE_ALLOCATOR_CACHE "${PROJECT_BINARY_DIR}/allocators" CACHE PATH "where allocators are built")

function(kv_cargo_allocator target name)
  find_program(CARGO_EXECUTABLE cargo)
  if(NOT CARGO_EXECUTABLE)
    message(FATAL_ERROR "ENGINE_ALLOCATOR=${name} needs cargo (Rust 1.71 or later): install it with rustup, or choose ENGINE_ALLOCATOR=system")
  endif()
  message(STATUS "allocator ${name}: cargo (about a minute the first time)")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env --unset=MAKEFLAGS --unset=MAKELEVEL --unset=LDFLAGS --unset=CPPFLAGS
            CC=${CMAKE_C_COMPILER} CFLAGS=-g1 CXX=${CMAKE_CXX_COMPILER} CXXFLAGS=-g1
            ${CARGO_EXECUTABLE} check --quiet --release --locked
            --target-dir ${ENGINE_ALLOCATOR_CACHE}/${name} --message-format=json-render-diagnostics
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/${name}
    OUTPUT_VARIABLE out RESULT_VARIABLE rc)
  if(NOT rc EQUAL 0)
    message(FATAL_ERROR "cargo could not build allocator ${name} (exit ${rc}); its own message is above")
  endif()
  string(REPLACE ";" "," out "${out}")
  string(REPLACE "\n" ";" lines "${out}")
  foreach(line IN LISTS lines)
    if(line MATCHES "build-script-executed" AND line MATCHES "\"static=([A-Za-z0-9_-]+)\"")
      set(library ${CMAKE_MATCH_1})
      string(JSON out_dir GET "${line}" out_dir)
    endif()
  endforeach()
  if(NOT out_dir)
    message(FATAL_ERROR "cargo built allocator ${name} but named no archive")
  endif()
  find_library(archive NAMES lib${library}.a PATHS ${out_dir}/lib ${out_dir} NO_DEFAULT_PATH NO_CACHE REQUIRED)
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${archive} INTERFACE_LINK_LIBRARIES "pthread;dl;m")
endfunction()

# One vocabulary for every room's CMakeLists.txt.
#
#   kv_library(NAME SRCS a.cc ... DEPS kv_types ...)             a room's static library (objects shared by all variants)
#   kv_together(GROUP b.cc c.cc ...)                      before kv_library: these of its sources are compiled as one
#   kv_executable(NAME SRCS ... DEPS ... [ALLOCATOR])     a program of the artifact; ALLOCATOR links ENGINE_ALLOCATOR
#   kv_test(NAME SRCS ... DEPS ... [LABELS concurrent])   a GoogleTest binary, registered with ctest
#   kv_benchmark(NAME SRCS ... DEPS ...)                  a Google Benchmark binary of the artifact, linked like kv_engine
#   kv_fuzzer(NAME SRCS ... DEPS ...)                     a libFuzzer target (clang and KV_FUZZ=ON only)
#
# kv_together is for sources that compile the same templates again (CLI11, nlohmann/json) or read the same many headers,
# and that a client's GET or SET does not run through. Lower optimisation would be cheaper still, but the linker keeps
# one copy of an inline function, and the data path must not get the copy of a file that was optimised less.
option(KV_TOGETHER "Compile as one the sources that kv_together names" ON)

# Of the artifact's programs only these, with what they are made of; empty: all.
set(KV_PROGRAMS "" CACHE STRING "Programs of the artifact that are built and installed; empty: all")

# Whether `all` builds it and the artifact has it.
function(kv_wanted name result)
  if(NOT KV_PROGRAMS OR name IN_LIST KV_PROGRAMS)
    set(${result} TRUE PARENT_SCOPE)
  else()
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

function(kv_together group)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${group})
endfunction()

# The standard library's headers, compiled once for the files of all libraries. No header of the engine is among them, so
# that a change of one recompiles what includes it and no more. (Programs have another code model, and few files.)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/kv_pch.cc CONTENT "")  # written once, compiled once
add_library(kv_pch OBJECT ${PROJECT_BINARY_DIR}/generated/kv_pch.cc)
target_link_libraries(kv_pch PRIVATE kv_flags)
target_precompile_headers(kv_pch PRIVATE <algorithm> <atomic> <chrono> <filesystem> <functional> <map> <memory> <mutex> <optional> <stdexcept>
  <string> <string_view> <thread> <unordered_map> <vector>)

function(kv_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(${name} STATIC ${ARG_SRCS})
    set_target_properties(${name} PROPERTIES UNITY_BUILD ${KV_TOGETHER} UNITY_BUILD_MODE GROUP)
    target_precompile_headers(${name} REUSE_FROM kv_pch)
    target_link_libraries(${name} PUBLIC kv_flags ${ARG_DEPS})
    target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
    if(KV_PROGRAMS)  # then only as a part of one of them
      set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE kv_flags ${ARG_DEPS})
    target_include_directories(${name} INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  endif()
endfunction()

function(kv_executable name)
  cmake_parse_arguments(ARG "ALLOCATOR" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE kv_flags ${ARG_DEPS})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  if(ARG_ALLOCATOR)
    target_link_libraries(${name} PRIVATE kv_selected_allocator)
  else()
    target_link_libraries(${name} PRIVATE kv_system_allocator)
  endif()
  kv_wanted(${name} wanted)
  if(wanted)
    install(TARGETS ${name} RUNTIME DESTINATION bin COMPONENT artifact)
  else()
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
endfunction()

function(kv_benchmark name)
  if(NOT KV_BENCHMARKS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  kv_executable(${name} ALLOCATOR SRCS ${ARG_SRCS} DEPS ${ARG_DEPS} benchmark::benchmark)
endfunction()

function(kv_test name)
  if(NOT KV_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE kv_flags ${ARG_DEPS} kv_system_allocator GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_precompile_headers(${name} REUSE_FROM kv_test_pch)
  # Tests take longer to compile than to run. What is not inline of what they test is optimised as the artifact is.
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  add_dependencies(kv_all_tests ${name})
  if("concurrent" IN_LIST ARG_LABELS)
    add_dependencies(kv_concurrent_tests ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

function(kv_fuzzer name)
  if(NOT KV_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE kv_flags ${ARG_DEPS} kv_system_allocator)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()

# GoogleTest's headers, compiled once for all test binaries (a program, so that its code model is theirs).
if(KV_TESTS)
  add_custom_target(kv_all_tests)
  add_custom_target(kv_concurrent_tests)  # those labelled `concurrent`: what TSan is run on
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/kv_test_pch.cc CONTENT "int main() { return 0; }\n")
  add_executable(kv_test_pch ${PROJECT_BINARY_DIR}/generated/kv_test_pch.cc)
  target_link_libraries(kv_test_pch PRIVATE kv_flags GTest::gmock)
  target_precompile_headers(kv_test_pch PRIVATE <gmock/gmock.h> <gtest/gtest.h> <atomic> <map> <memory> <string> <thread> <vector>)
endif()

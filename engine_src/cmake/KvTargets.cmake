# The functions that every folder's CMakeLists.txt uses.
#
#   kv_library(NAME SRCS a.cc ... DEPS kv_types ...)             a folder's static library (objects shared by all variants)
#   kv_together(GROUP b.cc c.cc ...)                      before kv_library: these sources are compiled as one unit
#   kv_executable(NAME SRCS ... DEPS ... [ALLOCATOR])     a program of the artifact; ALLOCATOR links ENGINE_ALLOCATOR
#   kv_test(NAME SRCS ... DEPS ... [LABELS concurrent | concurrent_slow] [ALLOCATOR])  a GoogleTest binary, registered with ctest
#   kv_benchmark(NAME SRCS ... DEPS ...)                  a Google Benchmark binary of the artifact, linked like kv_engine
#   kv_fuzzer(NAME SRCS ... DEPS ...)                     a libFuzzer target (clang and KV_FUZZ=ON only)
#
# kv_together is for sources that instantiate the same templates (CLI11, nlohmann/json) or include the same large headers,
# and that are not on the path of a client's GET or SET. Lower optimisation would be cheaper still, but the linker keeps
# one copy of an inline function, and the data path must not get the copy of a file that was optimised less.
#
# The sources of a test are also compiled as one unit: their headers cost more than their code. ALL does the same with
# libraries: it suits the sanitizers, whose builds run only once, and which compile a library in half the time of its
# batches. clang-tidy takes batches, several at a time. Names in unnamed namespaces then share a unit.
set(KV_TOGETHER "ON" CACHE STRING "Sources that are compiled as one unit: OFF none, ON those of kv_together and of tests, ALL also those of libraries")
set_property(CACHE KV_TOGETHER PROPERTY STRINGS OFF ON ALL)
if(NOT KV_TOGETHER MATCHES "^(OFF|ON|ALL)$")
  message(FATAL_ERROR "KV_TOGETHER=${KV_TOGETHER}: expected OFF, ON or ALL")
endif()

if(KV_SANITIZER STREQUAL "none")
  set(kv_batch 6)
else()
  set(kv_batch 0)  # all
endif()

# The programs of the artifact that are built, with their libraries; empty: all.
set(KV_PROGRAMS "" CACHE STRING "Programs of the artifact that are built and installed; empty: all")

add_custom_target(kv_programs)  # the programs of the artifact: `all` without the tests

# Set `result` to whether `all` builds the program and the artifact contains it.
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

# The standard library's headers, compiled once for the files of all libraries and programs. They contain no header of the engine, so
# a change of one recompiles only the files that include it.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/kv_pch.cc CONTENT "")  # written once, compiled once
add_library(kv_pch OBJECT ${PROJECT_BINARY_DIR}/generated/kv_pch.cc)
target_link_libraries(kv_pch PRIVATE kv_flags)
target_precompile_headers(kv_pch PRIVATE <algorithm> <atomic> <chrono> <filesystem> <functional> <map> <memory> <mutex> <optional> <stdexcept>
  <string> <string_view> <thread> <unordered_map> <vector>)

function(kv_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(${name} STATIC ${ARG_SRCS})
    if(KV_TOGETHER STREQUAL "ALL")
      set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${kv_batch})
      # The types of a source are in its unnamed namespace; here g++ takes the source for a header and would warn.
      target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    else()
      set_target_properties(${name} PROPERTIES UNITY_BUILD ${KV_TOGETHER} UNITY_BUILD_MODE GROUP)
    endif()
    target_precompile_headers(${name} REUSE_FROM kv_pch)
    target_link_libraries(${name} PUBLIC kv_flags ${ARG_DEPS})
    target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
    if(KV_PROGRAMS)  # then only as a part of these programs
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
  target_precompile_headers(${name} REUSE_FROM kv_pch)
  if(ARG_ALLOCATOR)
    target_link_libraries(${name} PRIVATE kv_selected_allocator)
  else()
    target_link_libraries(${name} PRIVATE kv_system_allocator)
  endif()
  kv_wanted(${name} wanted)
  if(wanted)
    install(TARGETS ${name} RUNTIME DESTINATION bin COMPONENT artifact)
    add_dependencies(kv_programs ${name})
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
  cmake_parse_arguments(ARG "ALLOCATOR" "" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  set(allocator $<IF:$<BOOL:${ARG_ALLOCATOR}>,kv_selected_allocator,kv_system_allocator>)
  target_link_libraries(${name} PRIVATE kv_flags ${ARG_DEPS} ${allocator} GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_precompile_headers(${name} REUSE_FROM kv_test_pch)
  if(KV_TOGETHER)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    # The types of a test are in the unnamed namespace of its source; here g++ takes the source for a header and would warn.
    target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  # Tests take longer to compile than to run. The tested libraries are optimised as in the artifact, and the sanitizers'
  # builds have the debug information.
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1> $<$<CONFIG:RelWithDebInfo>:-g0> $<$<CONFIG:Debug>:-O0>)
  add_dependencies(kv_all_tests ${name})
  foreach(label IN LISTS ARG_LABELS)
    add_dependencies(kv_${label}_tests ${name})
  endforeach()
  add_test(NAME ${name} COMMAND ${name})
  # The time-out only stops a hang: a sanitized test on a busy machine takes a minute.
  set_tests_properties(${name} PROPERTIES TIMEOUT 1200 LABELS "${ARG_LABELS}")
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

# GoogleTest's headers, compiled once for all test binaries.
if(KV_TESTS)
  add_custom_target(kv_all_tests)
  # What TSan checks: where threads meet. What takes minutes more, only in scripts/test --slow.
  add_custom_target(kv_concurrent_tests)
  add_custom_target(kv_concurrent_slow_tests)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/kv_test_pch.cc CONTENT "int main() { return 0; }\n")
  add_executable(kv_test_pch ${PROJECT_BINARY_DIR}/generated/kv_test_pch.cc)
  target_link_libraries(kv_test_pch PRIVATE kv_flags GTest::gmock)
  # As for the tests: g++ 13 refuses a header that was compiled with other options.
  target_compile_options(kv_test_pch PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1> $<$<CONFIG:RelWithDebInfo>:-g0> $<$<CONFIG:Debug>:-O0>)
  target_precompile_headers(kv_test_pch PRIVATE <gmock/gmock.h> <gtest/gtest.h> <atomic> <map> <memory> <string> <thread> <vector>)
endif()

"""A tiny engine: a CMake project with the variables, the component and the shape of the real one."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

from perfrunner.build.artifact import Artifact
from perfrunner.spec.allocator import AllocatorSpec
from perfrunner.spec.variant import Variant

CMAKELISTS = """
    cmake_minimum_required(VERSION 3.25)
    foreach(language C CXX)  # that the compilers work is tested by the real engine
      set(CMAKE_${language}_COMPILER_WORKS ON)
      set(CMAKE_${language}_ABI_COMPILED ON)
    endforeach()
    project(tiny LANGUAGES C CXX)
    set(ENGINE_ALLOCATOR "system" CACHE STRING "")
    set(ENGINE_HT_STATS "core" CACHE STRING "")
    set(ENGINE_ALLOCATOR_CACHE "" CACHE PATH "")
    option(KV_TESTS "" ON)
    set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
    set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
    set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -ffunction-sections")
    add_link_options(-fuse-ld=lld)
    add_library(store STATIC store.cc)
    target_compile_definitions(store PRIVATE HT_STATS="${ENGINE_HT_STATS}")
    add_library(room STATIC room.cc)
    target_link_libraries(room PUBLIC store)
    add_executable(kv_engine main.cc allocator_${ENGINE_ALLOCATOR}.cc)
    target_link_libraries(kv_engine room -Wl,--no-as-needed z)
    add_executable(a_tool tool.cc)
    target_link_libraries(a_tool room)
    set(KV_PROGRAMS "" CACHE STRING "")
    foreach(program a_tool kv_engine)
      if(NOT KV_PROGRAMS OR program IN_LIST KV_PROGRAMS)
        install(TARGETS ${program} DESTINATION bin COMPONENT artifact)
      else()
        set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL TRUE)
      endif()
    endforeach()
    if(KV_TESTS)
      message(FATAL_ERROR "tests are no part of an artifact")
    endif()
"""

SOURCES = {
    "CMakeLists.txt": CMAKELISTS,
    "store.cc": "const char* stats() { return HT_STATS; }\n",
    "room.cc": "const char* stats();\nconst char* room() { return stats(); }\n",
    "main.cc": """
        #include <cstdio>
        const char* room();
        const char* allocator();
        int main() { std::printf("%s %s\\n", allocator(), room()); }
    """,
    "tool.cc": """
        const char* room();
        int used(int n) { return n + room()[0]; }
        int main(int argc, char**) { return used(argc) == 0; }
    """,
    "allocator_system.cc": 'const char* allocator() { return "system"; }\n',
    "allocator_jemalloc-5.1.0.cc": 'const char* allocator() { return "jemalloc-5.1.0"; }\n',
    "allocators/jemalloc-5.1.0/Cargo.toml": "[package]\n",
    "allocators/jemalloc-5.1.0/Cargo.lock": """
        version = 3

        [[package]]
        name = "cc"
        version = "1.0.0"
        checksum = "11"

        [[package]]
        name = "jemalloc-sys"
        version = "0.1.8"
        checksum = "bfc62c8e"
    """,
    "allocators/jemalloc-5.3.1/Cargo.toml": "[package]\n",
    "allocators/jemalloc-5.3.1/Cargo.lock": "version = 3\n",
    "room_test.cc": "no C++ at all\n",
    "tests/CMakeLists.txt": "no CMake at all\n",
    "README.md": "a map\n",
}


def write_engine(directory: Path) -> Path:
    for name, text in SOURCES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
    return directory


def variant(allocator: str = "system", name: str = "v", **fields: object) -> Variant:
    given = fields.pop("allocator_options", {})
    return Variant(
        name=name,
        allocator=AllocatorSpec(name=allocator, options=given),
        **fields,
    )


def says(artifact: Artifact) -> str:
    """Return what the engine of the artifact prints."""
    return subprocess.run(
        [artifact.path / "bin" / "kv_engine"], capture_output=True, text=True, check=True
    ).stdout.strip()

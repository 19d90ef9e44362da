"""Which tools are found, and what is reported of those that are not."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from perfrunner.build.tools import build_environment, find_toolchain, require_cargo
from perfrunner.errors import BuildError


def program(directory: Path, name: str, says: str, status: int = 0) -> str:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    path.chmod(0o755)
    return str(path)


def test_this_machines_tools() -> None:
    tools = find_toolchain(build_environment())
    assert Path(tools.cxx).is_absolute()
    assert tools.cmake_version[0].isdigit()
    assert tools.target in tools.identity


def test_the_c_compiler_is_the_chosen_ones_partner(tmp_path: Path) -> None:
    for name in ("clang++-14", "clang-14", "gcc", "cc", "cmake", "ninja", "ld.lld"):
        program(tmp_path / "bin", name, f"{name} 1.0")
    tools = find_toolchain({"PATH": str(tmp_path / "bin"), "CXX": "clang++-14"})
    assert (Path(tools.cxx).name, Path(tools.cc).name) == ("clang++-14", "clang-14")
    assert tools.compiler == "clang++-14 1.0"


def test_the_version_counts_and_the_place_does_not(tmp_path: Path) -> None:
    def identity(where: str, version: str, linker: str = "LLD 14.0.6") -> str:
        for name in ("g++", "gcc", "cmake", "ninja"):
            program(tmp_path / where, name, version)
        program(tmp_path / where, "ld.lld", linker)
        return find_toolchain({"PATH": str(tmp_path / where)}).identity

    assert identity("a", "g++ 12.2.0") == identity("b", "g++ 12.2.0")
    assert identity("a", "g++ 12.2.0") != identity("c", "g++ 13.1.0")
    assert identity("a", "g++ 12.2.0") != identity("d", "g++ 12.2.0", "LLD 16.0.0")
    before = identity("e", "g++ 12.2.0")
    program(tmp_path / "e", "gcc", "gcc 13.1.0")
    assert find_toolchain({"PATH": str(tmp_path / "e")}).identity != before


def test_a_compiler_that_does_not_run(tmp_path: Path) -> None:
    for name in ("gcc", "cmake", "ninja"):
        program(tmp_path / "bin", name, "fine")
    program(tmp_path / "bin", "g++", "", status=1)
    with pytest.raises(BuildError, match=r"g\+\+ --version failed"):
        find_toolchain({"PATH": str(tmp_path / "bin")})


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ("cargo 1.63.0 (Debian)", r"needs cargo 1\.71 or later; .* is cargo 1\.63\.0"),
        ("nothing known", "needs cargo 1.71 or later"),
    ],
)
def test_an_old_cargo(tmp_path: Path, says: str, message: str) -> None:
    program(tmp_path / "bin", "cargo", says)
    with pytest.raises(BuildError, match=message) as caught:
        require_cargo("jemalloc-5.1.0", {"PATH": str(tmp_path / "bin")})
    assert "rustup" in (caught.value.hint or "")


def test_cargo(tmp_path: Path) -> None:
    program(tmp_path / "bin", "cargo", "cargo 1.95.0 (abc 2026-01-01)")
    env = {"PATH": str(tmp_path / "bin")}
    with pytest.raises(BuildError, match=r"jemalloc-5\.1\.0 needs rustc, which is not installed"):
        require_cargo("jemalloc-5.1.0", env)
    program(tmp_path / "bin", "rustc", "rustc 1.94.0 (def 2025-12-01)")
    both = "cargo 1.95.0 (abc 2026-01-01), rustc 1.94.0 (def 2025-12-01)"
    assert require_cargo("jemalloc-5.1.0", env) == both
    with pytest.raises(BuildError, match=r"jemalloc-5\.1\.0 needs cargo, which is not installed"):
        require_cargo("jemalloc-5.1.0", {"PATH": str(tmp_path)})


def test_the_environment_of_a_build_is_what_is_on_the_list() -> None:
    passed = {
        "HOME": "/h",
        "CCACHE_DIR": "/c",
        "CXX": "clang++",
        "https_proxy": "p",
        "CARGO_NET_RETRY": "9",
    }
    dropped = {
        "CXXFLAGS": "-O0", "LD_PRELOAD": "x", "PKG_CONFIG_PATH": "/x", "CMAKE_PREFIX_PATH": "/x",
        "RUSTFLAGS": "-C", "GCC_EXEC_PREFIX": "/x", "SOMETHING_NEW": "1", "CARGO_TARGET_DIR": "/t",
        "CCACHE_COMPILER": "/x", "CCACHE_PREFIX": "distcc", "CCACHE_PREFIX_CPP": "x", "CCACHE_PATH": "/x",
    }  # fmt: skip
    env = build_environment({"PATH": "/bin", **passed, **dropped})
    assert env.pop("PATH") == "/bin:/h/.cargo/bin"
    assert env == {**passed, "LC_ALL": "C.UTF-8", "NINJA_STATUS": "[%f/%t] "}


def test_an_empty_environment_has_tools() -> None:
    """As in `env -i`; the home directory is the user's, for cargo."""
    path = build_environment({})["PATH"].split(":")
    assert {"/usr/local/bin", "/usr/bin", "/bin"} < set(path)
    assert path[-1] == str(Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cargo" / "bin")
    assert find_toolchain(build_environment({})).cxx.startswith("/")

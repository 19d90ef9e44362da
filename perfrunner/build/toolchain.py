"""Find the tools of a build and their versions, and name the package to install if one is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from perfrunner.build.output import captured
from perfrunner.errors import BuildError
from perfrunner.paths import home

CARGO_AT_LEAST = (1, 71)  # the newest allocator crate's own minimum

# Variables that build commands inherit from the caller; nothing else can affect a build. CC and CXX choose the
# compilers, which the build id includes; a compiler cache returns what the compiler would, unless it is configured to
# use another one.
_INHERITED = re.compile(
    r"PATH|HOME|USER|LOGNAME|TMPDIR|XDG_CACHE_HOME|CC|CXX|CARGO_HOME|RUSTUP_HOME|RUSTUP_TOOLCHAIN"
    r"|(https?|no|all)_proxy|(HTTPS?|NO|ALL)_PROXY|SSL_CERT_(FILE|DIR)|CARGO_(HTTP|NET)_\w+"
    r"|CMAKE_C(XX)?_COMPILER_LAUNCHER|S?CCACHE_(?!COMPILER|PREFIX|PATH)\w+"
)
_PATH = "/usr/local/bin:/usr/bin:/bin"  # if the caller has none, as in `env -i`


@dataclass(frozen=True)
class Toolchain:
    """The tools of a build: absolute paths, and the version texts that the tools print."""

    cmake: str
    cmake_version: str
    ninja: str
    cc: str
    cxx: str
    compiler: str  # "g++ (Debian 12.2.0-14) 12.2.0"
    c_compiler: str  # "gcc (Debian 12.2.0-14) 12.2.0"
    target: str  # "x86_64-linux-gnu"
    linker: str  # "Debian LLD 14.0.6 (compatible with GNU linkers)"

    @property
    def identity(self) -> str:
        """The part that a build id depends on: compilers and linker, not their paths or the build tools."""
        return f"{self.compiler} and {self.c_compiler} for {self.target}, {self.linker}"


def build_environment(inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of build commands: the inherited variables listed above, in one language."""
    given = os.environ if inherited is None else inherited
    env = {name: value for name, value in given.items() if _INHERITED.fullmatch(name)}
    cargo_home = env.get("CARGO_HOME") or f"{env.get('HOME') or home()}/.cargo"
    path = env.get("PATH") or _PATH
    env["PATH"] = f"{path}:{cargo_home}/bin"  # rustup does not touch non-login shells
    env["LC_ALL"] = "C.UTF-8"
    env["NINJA_STATUS"] = "[%f/%t] "
    return env


def find_toolchain(env: Mapping[str, str]) -> Toolchain:
    """Find the tools. Raises BuildError, which names the package, if one is missing.

    $CXX and $CC choose other compilers.
    """
    path = env.get("PATH", "")
    cxx = _compiler(env.get("CXX"), ("g++", "clang++", "c++"), "C++", "g++", path)
    cc_of = {"g++": "gcc", "clang++": "clang", "c++": "cc"}
    directory, _, name = cxx.rpartition("/")
    partner = re.sub(r"(clang\+\+|g\+\+|c\+\+)", lambda match: cc_of[match.group(1)], name, count=1)
    cc = _compiler(env.get("CC"), (f"{directory}/{partner}", partner, "cc"), "C", "gcc", path)
    cmake = _tool("cmake", "cmake", path)
    version = _first_line([cmake, "--version"], env)
    return Toolchain(
        cmake=cmake,
        cmake_version=version.removeprefix("cmake version "),
        ninja=_tool("ninja", "ninja-build", path),
        cc=cc,
        cxx=cxx,
        compiler=_first_line([cxx, "--version"], env),
        c_compiler=_first_line([cc, "--version"], env),
        target=_first_line([cxx, "-dumpmachine"], env),
        linker=linker_version(env),
    )


def linker_version(env: Mapping[str, str]) -> str:
    """Return the version of the linker that the engine's CMakeLists.txt uses. Raises BuildError if it is missing."""
    return _first_line([_tool("ld.lld", "lld", env.get("PATH", "")), "--version"], env)


def require_cargo(allocator: str, env: Mapping[str, str]) -> str:
    """Return the versions of cargo and rustc, which build the allocators' crates.

    They may be of different releases: Debian has a package of each. Raises BuildError if either cannot build
    them.
    """
    hint = "install Rust with rustup (https://rustup.rs), or run ./scripts/quickstart, which installs it"
    cargo = shutil.which("cargo", path=env.get("PATH", ""))
    if cargo is None:
        raise BuildError(f"allocator {allocator} needs cargo, which is not installed", hint)
    line = _first_line([cargo, "--version"], env)
    match = re.search(r"(\d+)\.(\d+)", line)
    if match is None or tuple(int(part) for part in match.groups()) < CARGO_AT_LEAST:
        least = ".".join(str(part) for part in CARGO_AT_LEAST)
        raise BuildError(
            f"allocator {allocator} needs cargo {least} or later; {cargo} is {line}", hint
        )
    rustc = shutil.which("rustc", path=env.get("PATH", ""))
    if rustc is None:
        raise BuildError(f"allocator {allocator} needs rustc, which is not installed", hint)
    return f"{line}, {_first_line([rustc, '--version'], env)}"


def _tool(name: str, package: str, path: str) -> str:
    program = shutil.which(name, path=path)
    if program is None:
        raise BuildError(f"{name} is not installed", hint=f"apt-get install {package}")
    return program


def _compiler(
    chosen: str | None, candidates: tuple[str, ...], language: str, package: str, path: str
) -> str:
    if chosen:
        program = shutil.which(chosen, path=path)
        if program is None:
            variable = "CXX" if language == "C++" else "CC"
            raise BuildError(f"${variable}: {chosen} is not a program on this machine")
        return program
    for candidate in candidates:
        program = shutil.which(candidate, path=path)
        if program is not None:
            return program
    raise BuildError(f"no {language} compiler found", hint=f"apt-get install {package}")


def _first_line(argv: list[str], env: Mapping[str, str]) -> str:
    try:
        done = captured(argv, env)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"cannot run {argv[0]}: {error}") from error
    if done.returncode != 0 or not done.stdout.strip():
        raise BuildError(f"{' '.join(argv)} failed: {done.stderr.strip()[:300]}")
    return done.stdout.splitlines()[0].strip()

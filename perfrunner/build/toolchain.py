"""The tools of a build: which ones, which versions, and what to install when one is missing."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from perfrunner.errors import BuildError

CARGO_AT_LEAST = (1, 71)  # the newest allocator crate's own minimum

# What a build command gets of the caller's environment; nothing else can change what is built. CC and CXX choose the
# compilers, which the build id names; a compiler cache gives what the compiler would, unless it is told another one.
_INHERITED = re.compile(
    r"PATH|HOME|USER|LOGNAME|TMPDIR|XDG_CACHE_HOME|CC|CXX|CARGO_HOME|RUSTUP_HOME|RUSTUP_TOOLCHAIN"
    r"|(https?|no|all)_proxy|(HTTPS?|NO|ALL)_PROXY|SSL_CERT_(FILE|DIR)|CARGO_(HTTP|NET)_\w+"
    r"|CMAKE_C(XX)?_COMPILER_LAUNCHER|S?CCACHE_(?!COMPILER|PREFIX|PATH)\w+"
)
_PATH = "/usr/local/bin:/usr/bin:/bin"  # where the caller has none, as in `env -i`


@dataclass(frozen=True)
class Toolchain:
    """Absolute paths, and the texts by which the tools name themselves."""

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
        """What of it a build id depends on: compilers and linker, not where they lie or what drives them."""
        return f"{self.compiler} and {self.c_compiler} for {self.target}, {self.linker}"


def build_environment(inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of every build command: what of the caller's is on the list above, in one language."""
    given = os.environ if inherited is None else inherited
    env = {name: value for name, value in given.items() if _INHERITED.fullmatch(name)}
    home = env.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    cargo_home = env.get("CARGO_HOME") or f"{home}/.cargo"
    path = env.get("PATH") or _PATH
    env["PATH"] = f"{path}:{cargo_home}/bin"  # rustup does not touch non-login shells
    env["LC_ALL"] = "C.UTF-8"
    env["NINJA_STATUS"] = "[%f/%t] "
    return env


def find_toolchain(env: Mapping[str, str]) -> Toolchain:
    """BuildError, naming the package, when something is missing. $CXX (and $CC) choose another compiler."""
    path = env.get("PATH", "")
    cxx = _compiler(env.get("CXX"), ("g++", "clang++", "c++"), "C++", "g++", path)
    cc_of = {"g++": "gcc", "clang++": "clang", "c++": "cc"}
    directory, _, name = cxx.rpartition("/")
    partner = re.sub(r"(clang\+\+|g\+\+|c\+\+)", lambda found: cc_of[found.group(1)], name, count=1)
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
    """How the linker that the engine's CMakeLists.txt asks for names itself. BuildError when it is missing."""
    return _first_line([_tool("ld.lld", "lld", env.get("PATH", "")), "--version"], env)


def require_cargo(allocator: str, env: Mapping[str, str]) -> str:
    """How the cargo and rustc that build the allocators' crates name themselves.

    They need not be of one release: Debian has a package of each. BuildError when either cannot build them.
    """
    hint = "install Rust with rustup (https://rustup.rs), or run ./scripts/quickstart, which does"
    cargo = shutil.which("cargo", path=env.get("PATH", ""))
    if cargo is None:
        raise BuildError(f"allocator {allocator} needs cargo, which is not installed", hint)
    line = _first_line([cargo, "--version"], env)
    found = re.search(r"(\d+)\.(\d+)", line)
    if found is None or tuple(int(part) for part in found.groups()) < CARGO_AT_LEAST:
        least = ".".join(str(part) for part in CARGO_AT_LEAST)
        raise BuildError(
            f"allocator {allocator} needs cargo {least} or later; {cargo} is {line}", hint
        )
    rustc = shutil.which("rustc", path=env.get("PATH", ""))
    if rustc is None:
        raise BuildError(f"allocator {allocator} needs rustc, which is not installed", hint)
    return f"{line}, {_first_line([rustc, '--version'], env)}"


def _tool(name: str, package: str, path: str) -> str:
    found = shutil.which(name, path=path)
    if found is None:
        raise BuildError(f"{name} is not installed", hint=f"apt-get install {package}")
    return found


def _compiler(
    chosen: str | None, candidates: tuple[str, ...], language: str, package: str, path: str
) -> str:
    if chosen:
        found = shutil.which(chosen, path=path)
        if found is None:
            variable = "CXX" if language == "C++" else "CC"
            raise BuildError(f"${variable} names {chosen}, which is no program here")
        return found
    for candidate in candidates:
        found = shutil.which(candidate, path=path)
        if found is not None:
            return found
    raise BuildError(f"no {language} compiler found", hint=f"apt-get install {package}")


def _first_line(argv: list[str], env: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            argv, env=dict(env), capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{argv[0]} cannot be run: {error}") from error
    if done.returncode != 0 or not done.stdout.strip():
        raise BuildError(f"{' '.join(argv)} failed: {done.stderr.strip()[:300]}")
    return done.stdout.splitlines()[0].strip()

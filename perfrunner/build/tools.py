"""Find the tools of a build and their versions, and run its commands.

A command's output goes to the log, each line to a listener, and errors to the exception. If a tool, a header or a
library is missing, the exception names the package to install.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

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


def compiler_versions(env: Mapping[str, str]) -> tuple[str, str]:
    """Return the version lines of the C and the C++ compiler that $CC and $CXX, or else cc and c++, name.

    They may be commands of several words. The line is empty for a compiler that does not run.
    """

    def version(name: str, usual: str) -> str:
        try:
            return _first_line([*shlex.split(env.get(name) or usual), "--version"], env)
        except (BuildError, ValueError):
            return ""

    return version("CC", "cc"), version("CXX", "c++")


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


Progress: TypeAlias = Callable[[str], None]

EXCERPT_LINES = 15
_TELLING = re.compile(
    r"error[: ]|^CMake Error|undefined reference|cannot find|No space left|Killed|not found|ninja: (fatal|error)",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"-Werror|^\[\d+/\d+\]|^FAILED:|warnings being treated|^ninja: build stopped|^-- "
)
# Messages of the compilers and of the shell, not words that a quoted line of source may contain.
_OUT_OF_MEMORY = re.compile(
    r"Killed signal|terminated with signal 9|unable to execute command: Killed|\d Killed\b|^Killed$"
    r"|: Cannot allocate memory|virtual memory exhausted|out of memory allocating|LLVM ERROR: out of memory",
    re.MULTILINE,
)
_OFFLINE = re.compile(
    r"Could not resolve host|failure in name resolution|Network is unreachable", re.IGNORECASE
)
_TERM_PATIENCE_S = 2.0
# Colours and other control sequences of terminals, which some Makefiles print into pipes as well.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")

# The headers and libraries that the engine's CMakeLists.txt asks for.
_PACKAGES = {
    "RocksDB": "librocksdb-dev", "libevent": "libevent-dev", "hwloc": "libhwloc-dev", "fmt": "libfmt-dev",
    "spdlog": "libspdlog-dev", "nlohmann_json": "nlohmann-json3-dev", "CLI11": "libcli11-dev", "OpenSSL": "libssl-dev",
    "ZLIB": "zlib1g-dev", "libxxhash": "libxxhash-dev", "benchmark": "libbenchmark-dev", "PkgConfig": "pkg-config",
    "GTest": "libgmock-dev",
}  # fmt: skip


def captured(
    argv: Sequence[str], env: Mapping[str, str], timeout: float = 30
) -> subprocess.CompletedProcess[str]:
    """Run a program and return its status and output. Bytes that are not UTF-8 become surrogates, and are kept.

    Raises OSError or subprocess.TimeoutExpired.
    """
    return subprocess.run(
        argv,
        env=dict(env),
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=timeout,
        check=False,
    )


def silent(line: str) -> None:
    """Ignore a line of progress."""
    del line


def run_logged(
    argv: Sequence[str],
    *,
    what: str,
    log: IO[str],
    env: Mapping[str, str],
    progress: Progress,
    inherited: Sequence[int] = (),
) -> None:
    """Run a command to its end. Raises BuildError with the error lines if it fails.

    Its end, and an exception, end the whole process group: what a command leaves in the background would hold its
    output open, and run during a measurement. `inherited`: descriptors that the command and its children keep
    open.
    """
    log.write(f"$ {' '.join(argv)}\n")
    log.flush()
    lines: list[str] = []
    begun: Future[subprocess.Popen[str]] = Future()
    try:
        threading.Thread(target=_begin, args=(begun, argv, env, inherited), daemon=True).start()
        try:
            child = begun.result()
        except OSError as error:
            raise BuildError(f"cannot run {argv[0]}: {error.strerror}") from error
        assert child.stdout is not None
        with child.stdout:
            for line in child.stdout:
                log.write(line)
                shown = _CONTROL.sub("", line).rstrip()
                lines.append(shown)
                if shown:
                    progress(shown)
            status = child.wait()
    except BaseException:
        if not begun.cancel() and begun.exception() is None:
            _end_group(begun.result())
        raise
    finally:
        log.flush()
    if status != 0:
        raise failed(what, status, lines, Path(log.name))


def failed(what: str, status: int, lines: Sequence[str], log: Path) -> BuildError:
    """Return the error of a command: its error lines, its log, and the package to install if known."""
    how = f"status {status}" if status >= 0 else f"signal {-status}"
    text = "\n".join(f"  {line}" for line in excerpt(lines))
    hint = machine_hint(lines)
    return BuildError(
        f"{what} failed ({how}):\n{text}\n  log: {log}", hint, str(log), of_machine=hint is not None
    )


def excerpt(lines: Sequence[str]) -> list[str]:
    """Return the first errors with the lines that follow them, or the last lines if none looks like an error."""
    shown: list[str] = []
    following = 0
    for line in lines:
        if _TELLING.search(line) and not _NOISE.search(line):
            following = 3
        if following > 0 and line.strip():
            if not _NOISE.search(line):
                shown.append(line.strip()[:300])
            following -= 1
        if len(shown) >= EXCERPT_LINES:
            break
    return shown or [line.strip()[:300] for line in lines if line.strip()][-EXCERPT_LINES:]


def machine_hint(lines: Sequence[str]) -> str | None:
    """Return what to do if the machine lacks a package, disk space, memory or a network; None otherwise.

    Packages without which CMake goes on are not counted.
    """
    text = "\n".join(lines)
    asked = re.findall(
        r'(?:provided by|(?<!-- )Could NOT find|package configuration file provided by) "?(\w+)'
        r"|Package '(\w+)', required|No package '(\w+)' found",
        text,
    )
    packages = sorted({_PACKAGES[n] for names in asked for n in names if n in _PACKAGES})
    if packages:
        return f"apt-get install {' '.join(packages)}"
    if "No space left" in text:
        return "free some disk space; `perfrunner clean` removes old builds"
    if _OUT_OF_MEMORY.search(text):
        return "the machine ran out of memory: end other programs, or give it more memory"
    if _OFFLINE.search(text):
        return "the build needs the network: check the connection, name servers and proxy"
    return None


def _begin(
    begun: Future[subprocess.Popen[str]],
    argv: Sequence[str],
    env: Mapping[str, str],
    inherited: Sequence[int],
) -> None:
    """Start a command, and kill what it has left when it ends.

    This is the work of a thread, because an interrupt, which the main thread gets, would lose a child that is just
    being started.
    """
    if not begun.set_running_or_notify_cancel():
        return
    try:
        child = subprocess.Popen(
            argv,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            pass_fds=tuple(inherited),
        )
    except Exception as error:  # noqa: BLE001 - raised in the thread that waits for the command
        begun.set_exception(error)
        return
    begun.set_result(child)
    child.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _end_group(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    deadline = time.monotonic() + _TERM_PATIENCE_S
    while time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.01)
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()

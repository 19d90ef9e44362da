"""Handle a build command's output: everything to the log, each line to a listener, errors to the exception."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeAlias

from perfrunner.errors import BuildError

Progress: TypeAlias = Callable[[str], None]

EXCERPT_LINES = 15
_TELLING = re.compile(
    r"error[: ]|^CMake Error|undefined reference|cannot find|No space left|Killed|not found|ninja: (fatal|error)",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"-Werror|^\[\d+/\d+\]|^FAILED:|warnings being treated|^ninja: build stopped|^-- "
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

    An exception ends the whole process group. `inherited`: descriptors that the command and its children keep
    open.
    """
    log.write(f"$ {' '.join(argv)}\n")
    log.flush()
    lines: list[str] = []
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
    except OSError as error:
        raise BuildError(f"cannot run {argv[0]}: {error.strerror}") from error
    assert child.stdout is not None
    try:
        for line in child.stdout:
            log.write(line)
            shown = _CONTROL.sub("", line).rstrip()
            lines.append(shown)
            if shown:
                progress(shown)
        status = child.wait()
    except BaseException:
        _end_group(child)
        raise
    finally:
        child.stdout.close()
        log.flush()
    if status != 0:
        raise failed(what, status, lines, Path(log.name))


def failed(what: str, status: int, lines: Sequence[str], log: Path) -> BuildError:
    """Return the error of a command: its error lines, its log, and the package to install if known."""
    how = f"status {status}" if status >= 0 else f"signal {-status}"
    text = "\n".join(f"  {line}" for line in excerpt(lines))
    hint = missing_package(lines)
    return BuildError(f"{what} failed ({how}):\n{text}\n  log: {log}", hint, log=str(log))


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


def missing_package(lines: Sequence[str]) -> str | None:
    """Return `apt-get install ...` for packages that CMake did not find."""
    text = "\n".join(lines)
    asked = re.findall(
        r'(?:provided by|Could NOT find|package configuration file provided by) "?(\w+)'
        r"|Package '(\w+)', required|No package '(\w+)' found",
        text,
    )
    packages = sorted({_PACKAGES[n] for names in asked for n in names if n in _PACKAGES})
    if packages:
        return f"apt-get install {' '.join(packages)}"
    if "No space left" in text:
        return "free some disk space; `perfrunner clean` removes old builds"
    return None


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

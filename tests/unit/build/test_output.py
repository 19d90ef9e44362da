"""What of a failed command's output reaches the person."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perfrunner.build.artifact import parse_ldd
from perfrunner.build.tools import excerpt, failed, machine_hint, run_logged
from perfrunner.errors import BuildError
from perfrunner.servers.agent import is_alive
from tests.support.waiting import until

GCC = """
[1/9] Building CXX object a.cc.o
FAILED: a.cc.o
/usr/bin/c++ -Wall -Werror -o a.cc.o -c /src/a.cc
/src/a.cc: In function 'int f()':
/src/a.cc:3:12: error: 'x' was not declared in this scope
    3 |     return x;
      |            ^
[2/9] Building CXX object b.cc.o
/src/b.cc:1:5: warning: something harmless
ninja: build stopped: subcommand failed.
""".splitlines()


def test_the_error_with_its_place_and_no_command_lines() -> None:
    text = "\n".join(excerpt(GCC))
    assert "a.cc:3:12: error: 'x' was not declared" in text
    assert "return x;" in text
    assert "-Wall" not in text
    assert "harmless" not in text


def test_the_colours_of_a_makefile_are_left_out(tmp_path: Path) -> None:
    """Redis and Valkey print them into pipes as well. The log has everything."""
    lines: list[str] = []
    command = ["printf", r"    \033[34mCC\033[0m \033[33mserver.o\033[0m\n"]
    with (tmp_path / "log").open("w") as log:
        run_logged(command, what="x", log=log, env={"PATH": "/usr/bin:/bin"}, progress=lines.append)
    assert lines == ["    CC server.o"]
    assert "\033[34m" in (tmp_path / "log").read_text()


def test_without_errors_the_last_lines() -> None:
    assert excerpt([f"line {n}" for n in range(100)])[-1] == "line 99"
    assert excerpt([]) == []


def test_a_flood_is_cut() -> None:
    assert len(excerpt([f"f.cc:{n}: error: again" for n in range(1000)])) <= 15


def test_the_message_has_the_log_and_the_signal() -> None:
    error = failed("the build step", -9, ["c++: fatal error: Killed signal"], Path("/c/log"))
    assert "failed (signal 9)" in str(error)
    assert "log: /c/log" in str(error)


def test_packages() -> None:
    lines = [
        'By not providing "FindRocksDB.cmake" in CMAKE_MODULE_PATH this project has',
        'asked CMake to find a package configuration file provided by "RocksDB", but',
    ]
    assert machine_hint(lines) == "apt-get install librocksdb-dev"
    assert machine_hint(["Package 'libevent', required by 'virtual:world', not found"]) == (
        "apt-get install libevent-dev"
    )
    assert machine_hint(["No package 'hwloc' found"]) == "apt-get install libhwloc-dev"
    assert (
        machine_hint(["Could NOT find OpenSSL, try to set the path"])
        == "apt-get install libssl-dev"
    )
    assert machine_hint(["a.cc:1: error: x"]) is None
    assert machine_hint(["-- Could NOT find OpenSSL (missing: x)", "a.cc:1: error: x"]) is None
    assert "disk" in (machine_hint(["cannot write: No space left on device"]) or "")


@pytest.mark.parametrize(
    "line",
    [
        "c++: fatal error: Killed signal terminated program cc1plus",
        "collect2: fatal error: ld terminated with signal 9 [Killed]",
        "clang++: error: unable to execute command: Killed",
        "sh: line 1:   417 Killed                  make",
        "virtual memory exhausted: Cannot allocate memory",
    ],
)
def test_a_compiler_that_was_out_of_memory_is_no_fault_of_the_source(line: str) -> None:
    assert "memory" in (machine_hint(["[3/9] c++ a.cc", line]) or "")
    assert failed("the build step", 1, [line], Path("/c/log")).of_machine


def test_a_word_in_quoted_source_blames_no_machine() -> None:
    lines = ["a.cc:1: error: x", '  1 | throw Killed{"out of memory"};']
    assert machine_hint(lines) is None
    assert not failed("the build step", 1, lines, Path("/c/log")).of_machine


def test_a_download_without_a_network() -> None:
    line = "fatal: unable to access 'https://a.example/': Could not resolve host: a.example"
    assert "network" in (machine_hint([line]) or "")


def test_ldd() -> None:
    text = """
        linux-vdso.so.1 (0x00007ffd)
        librocksdb.so.7.8 => /lib/x86_64-linux-gnu/librocksdb.so.7.8 (0x00007f00)
        libgone.so.1 => not found
        libstdc++.so.6 => /lib/x86_64-linux-gnu/libstdc++.so.6 (0x00007f01)
        libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f01)
        libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f02)
        /lib64/ld-linux-x86-64.so.2 (0x00007f03)
    """
    assert parse_ldd(text) == {
        "librocksdb.so.7.8": Path("/lib/x86_64-linux-gnu/librocksdb.so.7.8"),
        "libgone.so.1": None,
        "libstdc++.so.6": Path("/lib/x86_64-linux-gnu/libstdc++.so.6"),
    }


@pytest.mark.timeout(60)
def test_a_command_is_over_when_it_ends(tmp_path: Path):
    """End what a command leaves in the background: it would hold the output open, and run during a measurement."""
    lines: list[str] = []
    command = ["sh", "-c", "sleep 600 & echo $!"]
    with (tmp_path / "log").open("w") as log:
        run_logged(command, what="x", log=log, env={"PATH": "/usr/bin:/bin"}, progress=lines.append)
    (left,) = map(int, lines)
    until(lambda: not is_alive(left), "it ends with the command")


@pytest.mark.timeout(60)
def test_a_command_that_nothing_can_start_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        for word, error in (("/nonexistent", BuildError), ("nul\0", ValueError)):
            with pytest.raises(error):
                run_logged([word], what="x", log=log, env={}, progress=print)


def test_an_interrupt_while_a_command_is_being_started_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[subprocess.Popen[str]] = []
    start = subprocess.Popen

    def interrupted(*words: Any, **options: Any) -> subprocess.Popen[str]:
        children.append(start(*words, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return children[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    try:
        with (tmp_path / "log").open("w") as log, pytest.raises(KeyboardInterrupt):
            run_logged(["sleep", "60"], what="x", log=log, env={"PATH": "/bin"}, progress=print)
        assert children[0].poll() == -signal.SIGTERM
    finally:
        children[0].kill()
        children[0].wait()

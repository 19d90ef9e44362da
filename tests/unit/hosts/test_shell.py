"""Quoting, environments and how an end is reported."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfrunner.errors import HostError
from perfrunner.hosts import ExitStatus
from perfrunner.hosts.local import LocalTransport
from perfrunner.hosts.process import BASE_ENVIRONMENT, Raw, foreign_variables, with_environment
from perfrunner.hosts.scripts import marked_program
from perfrunner.hosts.transport import hint_of

WORD = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=20)


@given(st.lists(WORD, min_size=1, max_size=5))
def test_a_shell_sees_the_same_arguments(words: list[str]) -> None:
    program, mark = marked_program(["printf", "%s\\0", *words], fed=True)
    done = subprocess.run(["sh", "-c", program], capture_output=True, check=True)
    assert done.stdout == mark + b"".join(word.encode() + b"\0" for word in words)


@given(st.dictionaries(st.from_regex(r"PERF_[A-Z0-9_]{1,8}", fullmatch=True), WORD, max_size=3))
def test_a_program_sees_the_same_environment(env: dict[str, str]) -> None:
    argv = with_environment(["env", "-0"], env)
    done = subprocess.run(argv, capture_output=True, check=True)
    seen = dict(entry.split(b"=", 1) for entry in done.stdout.split(b"\0") if entry)
    assert {key: seen[key.encode()].decode() for key in env} == env


def test_nothing_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LD_PRELOAD", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "TMPDIR"):
        monkeypatch.setenv(name, "")
    argv = with_environment(["env", "-0"], {"A": "1", "LANG": "C"}, "/")
    done = subprocess.run(argv, capture_output=True, check=True, text=True)
    seen = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    assert seen == {**BASE_ENVIRONMENT, "A": "1", "LANG": "C"}


def test_what_a_process_has_beyond_its_own() -> None:
    own = "LANG=C.UTF-8\0PATH=/usr/local/bin:/usr/bin:/bin\0A=b=c\0"
    assert foreign_variables(own, {"A": "b=c"}) == []
    assert foreign_variables(own + "LD_PRELOAD=x\0", {"A": "d", "B": ""}) == [
        "A",
        "B",
        "LD_PRELOAD",
    ]


@pytest.mark.parametrize("argv", [[], ["A=B"], ["a", "b\0c"]])
def test_what_is_no_command(argv: list[str]) -> None:
    with pytest.raises(ValueError, match=r"not a command|NUL"):
        with_environment(argv)


@pytest.mark.parametrize(
    ("status", "meaning", "text"),
    [
        (0, ExitStatus(code=0), "exit 0"),
        (3, ExitStatus(code=3), "exit 3"),
        (127, ExitStatus(code=127), "exit 127"),
        (128, ExitStatus(code=128), "exit 128"),
        (137, ExitStatus(signal=signal.SIGKILL), "killed by SIGKILL"),
        (255, ExitStatus(code=255), "exit 255"),
    ],
)
def test_a_shells_status(status: int, meaning: ExitStatus, text: str) -> None:
    assert ExitStatus.from_shell(status) == meaning
    assert str(meaning) == text
    assert meaning.ok is (status == 0)


def test_an_unknown_end_is_not_success() -> None:
    assert not ExitStatus().ok
    assert "without a recorded status" in str(ExitStatus())


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("sh: 0: Cannot fork", "limits"),
        ("sh: fork: retry: Resource temporarily unavailable", "limits"),
        ("sh: 1: cannot open x: Too many open files", "limits"),
        ("cat: write error: File too large", "limits"),
        ("cat: write error: No space left on device", "disk space"),
    ],
)
def test_a_failure_of_the_system_says_what_to_do(reason: str, remedy: str) -> None:
    assert remedy in (hint_of(reason) or "")


def test_a_local_command_that_cannot_be_started_is_an_error_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    host = LocalTransport("here")
    host.open_work_dir(str(tmp_path / "work"))
    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(HostError, match="here: cannot start") as refused:
        host.run(["true"])
    assert "limits" in (refused.value.hint or "")


def test_a_file_is_not_absent_because_nobody_can_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = LocalTransport("here")
    host.open_work_dir(str(tmp_path / "work"))
    assert not host.exists("absent")
    failed = Raw(2, b"", b"sh: 0: Cannot fork")
    monkeypatch.setattr(host, "_execute", lambda *_, **__: failed)
    with pytest.raises(HostError, match="Cannot fork"):
        host.exists("absent")

"""Streams that end early, are full or claim an absurd width: no traceback, no wrong exit code, no lost number."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fakes import ROOT

FIRST = str(ROOT / "specs" / "first.yaml")
TABLES = [
    ["list"],
    pytest.param(["report"], marks=pytest.mark.long),
    pytest.param(["plan", FIRST, "--seed", "1"], marks=pytest.mark.long),
]


def shown(words: list[str]) -> str:
    return " ".join(words)


def perfrunner(
    words: list[str], cwd: Path, stdout: int, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "PERFRUNNER_OUT")}
    return subprocess.run(
        [sys.executable, "-m", "perfrunner", *words], cwd=cwd, stdout=stdout, stderr=subprocess.PIPE, check=False,
        env={**env, "PYTHONPATH": str(ROOT), **environment}, timeout=300,
    )  # fmt: skip


def broken_pipe() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.fixture
def stored(nights: object, night: object) -> None:
    night(0.05)  # type: ignore[operator]


@pytest.mark.parametrize("words", [*TABLES, ["show", "--trials"], ["--help"]], ids=shown)
def test_a_reader_that_goes_is_no_error(cli, stored, words):
    done = perfrunner(words, cli.directory, broken_pipe())
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "words", [["list"], ["--man"], pytest.param(["report"], marks=pytest.mark.long)], ids=shown
)
@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.long)])
def test_a_full_disk_is_named(cli, stored, words, unbuffered):
    full = os.open("/dev/full", os.O_WRONLY)
    done = perfrunner(words, cli.directory, full, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 3
    assert done.stderr.startswith(b"error: cannot write the result to stdout: No space left")


def test_a_completion_on_a_full_disk_is_no_verdict(tmp_path):
    script = "from perfrunner.cli import main; main(prog_name='perfrunner')"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT), "_PERFRUNNER_COMPLETE": "bash_source"}, timeout=300,
        )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == b"error: cannot write the completion: No space left on device\n"


@pytest.mark.parametrize("words", [["report"], ["no-such-command"]], ids=shown)
def test_a_lost_message_does_not_change_the_exit_code(tmp_path, words):
    """A log on a full disk loses messages."""
    full = os.open("/dev/full", os.O_WRONLY)
    done = subprocess.run(
        [sys.executable, "-m", "perfrunner", *words], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=full,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == (3 if words == ["report"] else 2)


SERVERS = ["cat {port}", "cat {port} -n"]


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["ab", *SERVERS], "No usable temporary directory", "TMPDIR"),
        (["nightly", "spec.yaml"], "cannot be written: File too large", "free some space"),
    ],
    ids=["ab", "nightly"],
)
def test_a_file_that_cannot_be_written_is_not_called_stdout(cli, words, message, hint):
    """No regular file can grow, as on a full disk; stdout is a pipe."""
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -f 0; exec "$@"', "sh", sys.executable, "-m", "perfrunner", *words],
        cwd=cli.directory, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "stdout" not in done.stderr
    assert message in done.stderr
    assert hint in done.stderr.partition("hint: ")[2]


@pytest.mark.parametrize(
    "words",
    [["ab", *SERVERS], pytest.param(["nightly", "spec.yaml"], marks=pytest.mark.long), ["report"]],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("place", ["spec.yaml/x", "x" * 300], ids=["below a file", "too long"])
def test_a_path_that_cannot_be_is_a_usage_error(cli, words, place):
    done = perfrunner([*words, "--out", place], cli.directory, subprocess.DEVNULL)
    assert b"Traceback" not in done.stderr, done.stderr
    assert done.returncode == (2 if words[0] != "report" or place[0] == "x" else 3)
    assert place.encode() in done.stderr


@pytest.mark.parametrize("words", TABLES, ids=shown)
def test_an_absurd_width_is_none(cli, stored, words, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    usual = cli(*words).stdout
    assert re.search(r"\d", usual)
    for columns in ("0", "1", "99999999999"):
        monkeypatch.setenv("COLUMNS", columns)
        assert cli(*words).stdout == usual


PROGRESS = """
import os, sys
from perfrunner.cli.output import hold_standard_streams
from perfrunner.cli.progress import progress_listener
from perfrunner.experiment import events as ev
hold_standard_streams()
with progress_listener(quiet=sys.argv[1] == "quiet") as listener:
    for number in range(3):
        listener.on_event(ev.Warned("the host is busy", "wait"))
        listener.on_event(ev.BuildFailed("je", "no compiler"))
print("the run goes on")
"""


@pytest.mark.parametrize("how", ["quiet", "lines"])
def test_a_run_outlives_the_reader_of_its_progress(tmp_path, how):
    """The command is `perfrunner run spec.yaml 2>&1 >results.txt | head`."""
    stderr = broken_pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRESS, how], stdout=subprocess.PIPE, stderr=stderr, check=False, cwd=ROOT,
            timeout=300,
        )  # fmt: skip
    finally:
        os.close(stderr)
    assert (done.returncode, done.stdout) == (0, b"the run goes on\n")

"""The shell programs: those that are asked for are there, and what is sent is program text only."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

from perfrunner.hosts import scripts
from perfrunner.hosts.transport import hint_of

PACKAGE = Path(__file__).parents[3] / "perfrunner"
FILES = sorted((PACKAGE / "hosts" / "programs").glob("*.sh"))


def test_every_program_that_is_asked_for_is_there_and_no_other() -> None:
    asked = {
        node.attr
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        and node.value.id == "scripts"
    }  # fmt: skip
    programs = {name for name in asked if isinstance(getattr(scripts, name), str)}
    behind = {"identity.sh", "machine-holder.sh"}
    there = {path.name for path in FILES} - behind
    assert {f"{name.lower().replace('_', '-')}.sh" for name in programs} == there
    with pytest.raises(AttributeError, match=r"no program put-fiel\.sh"):
        _ = scripts.PUT_FIEL


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_program_is_sent_without_its_comments(path: Path) -> None:
    sent = getattr(scripts, path.stem.upper().replace("-", "_"))
    assert not [line for line in sent.splitlines() if not line or line.lstrip().startswith("#")]
    shell = re.match(r"# shellcheck shell=(sh|bash)\b", path.read_text())
    assert shell is not None
    assert subprocess.run([shell[1], "-n", "-c", sent], check=False).returncode == 0


def test_no_program_is_written_in_python() -> None:
    """What runs in a shell is a file, so that shellcheck reads it."""
    written = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}"
        for path in PACKAGE.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.List) and [ast.unparse(word) for word in call.elts[:2]] in SHELLS
        and not _is_a_program(call.elts[2])
    ]  # fmt: skip
    assert written == []


SHELLS = [["'sh'", "'-c'"], ["'bash'", "'-c'"]]


def _is_a_program(word: ast.expr) -> bool:
    text = ast.unparse(word)
    return text in ("script", "text") or all(
        part.startswith("scripts.") for part in text.split(" if fed else ")
    )


def test_programs_that_need_an_identity_begin_with_it() -> None:
    for name in ("POLL", "WAIT", "SIGNAL", "STOP"):
        assert getattr(scripts, name).startswith(scripts.IDENTITY)
    assert scripts.IDENTITY.startswith("base=$1 pid=$2 start_time=$3 boot_id=$4; shift 4\n")


@pytest.mark.parametrize(
    ("setsid", "reason"),
    [
        ("echo setsid: fork: Resource temporarily unavailable >&2; exit 1", "temporarily"),
        ("exit 0", "limit"),  # and then it ends without a word
        ('echo "sh: 0: Cannot fork" >>"$LOG"', "Cannot fork"),
    ],
    ids=["by setsid", "silently", "in the log"],
)
def test_a_start_that_fails_says_why(tmp_path: Path, setsid: str, reason: str) -> None:
    log = tmp_path / "err"
    for name, text in (("setsid", setsid), ("sleep", "exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", scripts.START, "sh", scripts.KEEPER, scripts.PROGRAM, str(tmp_path / "p"),
         str(tmp_path / "out"), str(log), "{}", "true"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(log)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 70
    assert reason in done.stderr
    assert "limits" in (hint_of(done.stderr) or "")

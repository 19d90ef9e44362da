"""The shell programs: those that are asked for are there, and what is sent is program text only."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from perfrunner.hosts import scripts

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

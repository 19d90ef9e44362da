"""The shell programs: those that are asked for are there, and what is sent is program text only."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from perfrunner.cluster import scripts

ROOM = Path(__file__).parents[3] / "perfrunner" / "cluster"
FILES = sorted((ROOM / "programs").glob("*.sh"))


def test_every_program_that_is_asked_for_is_there_and_no_other() -> None:
    asked = {
        node.attr
        for path in ROOM.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        and node.value.id == "scripts"
    }  # fmt: skip
    programs = {name for name in asked if isinstance(getattr(scripts, name), str)}
    behind = {"identity.sh"}
    there = {path.name for path in FILES} - behind
    assert {f"{name.lower().replace('_', '-')}.sh" for name in programs} == there
    with pytest.raises(AttributeError, match=r"no program put-fiel\.sh"):
        _ = scripts.PUT_FIEL


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_program_is_sent_without_its_comments(path: Path) -> None:
    sent = getattr(scripts, path.stem.upper().replace("-", "_"))
    assert not [line for line in sent.splitlines() if not line or line.lstrip().startswith("#")]
    assert subprocess.run(["sh", "-n", "-c", sent], check=False).returncode == 0
    assert path.read_text().startswith("# shellcheck shell=sh")


def test_programs_that_need_an_identity_begin_with_it() -> None:
    for name in ("POLL", "WAIT", "SIGNAL", "STOP"):
        assert getattr(scripts, name).startswith(scripts.IDENTITY)
    assert scripts.IDENTITY.startswith("base=$1 pid=$2 start_time=$3 boot_id=$4; shift 4\n")

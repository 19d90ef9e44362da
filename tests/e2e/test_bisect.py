"""A real slowdown, injected in the middle of 20 commits of the real engine, and found.

The metric is instructions per operation: it needs few blocks and hardly any quiet.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import BUILD_TIMEOUT_S
from tests.support.built import CACHE
from tests.support.fakes import ROOT

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.timeout(BUILD_TIMEOUT_S + 3600),
]

COMMITS, CULPRIT = 20, 11
SPEC = {
    "name": "injected",
    "baseline": "engine",
    "variants": {"engine": {"allocator": {"name": "system"}}},
    "engine": {"vbuckets": 16, "quota_mb": 128},
    "buckets": ["ephemeral"],
    "workloads": {
        "pf": {
            "type": "pillowfight", "items": 2000, "threads": 1, "ramp": 0.2, "duration": 1.3, "settle": 0,
            "instructions": 4000,
        }
    },
    "blocks": 6,
    "primary": ["instructions_per_op"],
}  # fmt: skip


def git(repo: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", "-C", str(repo), *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def history(tmp_path: Path) -> tuple[Path, list[str]]:
    """Each commit touches a file that is quick to compile; one costs 4 % more instructions an operation."""
    repo = tmp_path / "repo"
    ignored = shutil.ignore_patterns("build", "build-*", "__pycache__")
    shutil.copytree(ROOT / "engine_src", repo / "engine_src", ignore=ignored)
    git(repo, "init", "-q", "-b", "main")
    touched = repo / "engine_src" / "server" / "connections" / "watched_socket.cc"
    text = touched.read_text()
    commits = []
    for number in range(COMMITS + 1):
        touched.write_text(f"{text}\n// {number}\n")
        if number == CULPRIT:
            table = repo / "engine_src" / "options" / "switches.json"
            document = json.loads(table.read_text())
            (injected,) = (s for s in document["switches"] if s["name"] == "injected")
            assert injected["default"] == "none"
            injected["default"] = "burn"
            table.write_text(json.dumps(document, indent=2))
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", f"change {number}")
        commits.append(git(repo, "rev-parse", "HEAD"))
    return repo, commits


def test_the_injected_commit_is_found(history: tuple[Path, list[str]], tmp_path: Path) -> None:
    repo, commits = history
    host = {"hosts": {"here": {"work_dir": str(tmp_path / "work")}}}
    cluster = {
        "name": "c",
        "transport": "local",
        "engine_nodes": ["here"],
        "load_clients": ["here"],
    }
    (tmp_path / "spec.yaml").write_text(json.dumps({**SPEC, "cluster": {**cluster, **host}}))
    argv = [
        sys.executable, "-m", "perfrunner", "bisect", "spec.yaml", "--good", commits[0], "--bad", "main",
        "--metric", "instructions_per_op", "--engine-src", str(repo / "engine_src"), "--cache", str(CACHE),
        "--json", "-q",
    ]  # fmt: skip
    done = subprocess.run(
        argv,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S + 3000,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    matches = json.loads(done.stdout)
    assert matches["culprits"] == [commits[CULPRIT]], matches["finding"]
    whole = matches["steps"][0]
    assert (whole["verdict"], whole["outcome"]) == ("worse", "bad")
    assert 1.03 < whole["estimate"] < 1.06
    assert len(matches["steps"]) <= 6
    assert list((tmp_path / "perfrunner-results" / "bisect").glob("injected-*.svg"))

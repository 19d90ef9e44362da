"""The whole tool on the real engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfrunner.results import ExperimentData, ResultStore
from perfrunner.spec.switches import Switch, own_table
from tests.support.built import CACHE
from tests.support.fakes import ROOT, Lab

BUILD_TIMEOUT_S = 1500

WORKLOADS = {
    "pillowfight": {
        "type": "pillowfight", "items": 5000, "duration": "3s", "ramp": "1s", "settle": "0.2s", "threads": 1,
    },
    "append": {"type": "append", "items": 2000, "rounds": 2, "settle": "0.2s"},
}  # fmt: skip


def _another(switch: Switch) -> str:
    """A value that is not the default."""
    if switch.number is not None:
        return str(switch.number.least + 2)
    return [value for value in switch.values if value != switch.default][-1]


# Every build switch away from its default. Of the injected faults the one that these tests do not feel.
OTHER_OPTIONS = {name: _another(switch) for name, switch in own_table().items()} | {
    "injected": "bytes16"
}
# A build in which it is not compiled in fails the settings check of every test here. Few source files depend on it.
ONE_OPTION = {"dcp_consumer_probe": OTHER_OPTIONS["dcp_consumer_probe"]}


def variants(options: dict[str, str]) -> dict[str, object]:
    """Two variants of one build, with these build switches."""
    glibc = {"allocator": {"name": "system"}, "options": options}
    return {"glibc": glibc, "one-arena": {**glibc, "env": {"MALLOC_ARENA_MAX": "1"}}}


@dataclass
class RealLab(Lab):
    """A Lab whose spec is for the real engine and whose runs are the command line's."""

    def write_spec(self, **changes: object) -> None:
        small: dict[str, object] = {
            "variants": variants(ONE_OPTION),
            "baseline": "glibc",
            "engine": {"vbuckets": 64, "quota_mb": 256, "threads": 1},
            "workloads": WORKLOADS,
            "blocks": 1,
        }
        # a busy machine may take a whole CPU from a load client: these tests measure nothing
        limits = {"client_busy": 1.0}
        super().write_spec(**{**small, "limits": limits, **changes})

    def command(self, *arguments: str, verb: str = "run") -> list[str]:
        return [
            sys.executable, "-m", "perfrunner", verb, str(self.spec_path),
            "--out", str(self.out), "--cache", str(CACHE), *arguments,
        ]  # fmt: skip

    def perfrunner(
        self, *arguments: str, verb: str = "run", timeout: float = BUILD_TIMEOUT_S
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments, verb=verb),
            capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
        )  # fmt: skip

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
        )  # fmt: skip

    def json(
        self, *arguments: str, verb: str = "run"
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        done = self.perfrunner("--json", *arguments, verb=verb)
        document: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        return done, document

    def stored(self) -> ExperimentData:
        with ResultStore.open(self.out, create=False) as store:
            (summary,) = store.list()
            return store.load(summary.experiment.id)


@pytest.fixture
def real(tmp_path: Path) -> RealLab:
    return RealLab(tmp_path)


@pytest.fixture
def two_revisions(tmp_path: Path) -> Path:
    """v1 is the engine of this checkout, v2 differs in a file that every load tool has, the work tree in one more."""
    top = tmp_path / "repo"
    ignored = shutil.ignore_patterns("build", "build-*", "__pycache__")
    shutil.copytree(ROOT / "engine_src", top / "engine_src", ignore=ignored)

    def git(*words: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", top, *who, *words], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for number in (1, 2):
        git("add", "-A")
        git("commit", "-q", "-m", f"change {number}")
        git("tag", f"v{number}")
        with (top / "engine_src" / "load" / "generators" / "tool_main.cc").open("a") as file:
            file.write(f"// {number}\n")
        if number == 1:
            continue
        (top / "engine_src" / "load" / "generators" / "notes.h").write_text("// in no program\n")
    return top

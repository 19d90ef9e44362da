"""The whole tool on the real engine. The build cache outlives the tests (build/perfrunner-cache): only the first run
of a source compiles.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfrunner.results import ExperimentData, ResultStore
from tests.support.fakes import ROOT, Lab

CACHE = Path(os.environ.get("PERFRUNNER_CACHE", ROOT / "build" / "perfrunner-cache"))
BUILD_TIMEOUT_S = 1500

WORKLOADS = {
    "pillowfight": {
        "type": "pillowfight", "items": 5000, "duration": "3s", "ramp": "1s", "settle": "0.2s", "threads": 1,
    },
    "append": {"type": "append", "items": 2000, "rounds": 2, "settle": "0.2s"},
}  # fmt: skip
# Every build switch away from its default: a build in which one is not compiled in fails the proof of every test here.
OTHER_OPTIONS = {
    "ht_stats": 3,
    "ht_stats_padded": "on",
    "dcp_ready": "lockfree",
    "dcp_snapshot_queue": "duplicates",
    "dcp_snapshot_yield": 10,
    "dcp_consumer_probe": "after",
    "flush_callback": "item",
    "flush_ids": "vector",
    "flush_free": "after",
    "flush_dedup": "map",
    "cursor_drop": "walk",
    "checkpoint_extract": "walk",
    "planted": "bytes16",
}
VARIANTS = {
    "glibc": {"allocator": {"name": "system"}, "options": OTHER_OPTIONS},
    "one-arena": {
        "allocator": {"name": "system"},
        "options": OTHER_OPTIONS,
        "env": {"MALLOC_ARENA_MAX": "1"},
    },
}


@dataclass
class RealLab(Lab):
    """A Lab whose spec is for the real engine and whose runs are the command line's."""

    def write_spec(self, **changes: object) -> None:
        small: dict[str, object] = {
            "variants": VARIANTS,
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

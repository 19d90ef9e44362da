"""Compare the CPU cost of two pieces of work that are measured in the same run.

A test asserts a ratio, never seconds: both pieces are slow on a slow machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.fakes import ROOT

ROUNDS = 5


def cost_ratio(
    work: Callable[[], object], yardstick: Callable[[], object], rounds: int = ROUNDS
) -> float:
    """Return the CPU cost of `work` divided by that of `yardstick`, each the least of interleaved rounds."""
    pairs = [(_cpu_s(work), _cpu_s(yardstick)) for _ in range(rounds)]
    return min(work_s for work_s, _ in pairs) / min(yardstick_s for _, yardstick_s in pairs)


def python(*words: str, cwd: Path | None = None) -> None:
    """Run the interpreter with these arguments; `cost_ratio` counts the CPU time of the child."""
    subprocess.run(
        [sys.executable, *words], check=True, capture_output=True, stdin=subprocess.DEVNULL, cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def _cpu_s(work: Callable[[], object]) -> float:
    before = os.times()
    began = time.process_time()
    work()
    after = os.times()
    children = after.children_user + after.children_system
    return time.process_time() - began + children - before.children_user - before.children_system

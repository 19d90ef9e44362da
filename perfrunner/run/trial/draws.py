"""What is drawn for a trial, an ensemble or a block: each from the experiment's seed and its own place, nothing else.

So a resumed run draws what the killed one would have drawn, and no draw depends on another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from perfrunner.build.layout import SEEDS
from perfrunner.run.plan.schedule import Task

PADDING_MAX = 4096  # bytes of environment that are varied: stack placement depends on it


def workload_seed(seed: int, task: Task) -> int:
    """The same keys and values for every arm of a cell's block, others in the next block."""
    return _draw(f"{seed}/workload/{task.block}/{task.workload}/{task.bucket}") % 2**31


def round_seed(seed: int, task: Task) -> int:
    """Of the permutations of an ensemble's rounds."""
    key = f"{task.block}/{task.attempt}/{task.workload}/{task.bucket}/{task.ensemble}"
    return _draw(f"{seed}/rounds/{key}") % 2**31


def padding_size(seed: int, task: Task) -> int:
    """1..PADDING_MAX bytes, drawn for each trial."""
    key = f"{seed}/padding/{task.block}/{task.attempt}/{task.workload}/{task.bucket}/{task.variant}"
    return 1 + _draw(key) % PADDING_MAX


def layout_seed(seed: int, shared: str, block: int, attempt: int) -> int:
    """Of the order that programs are linked in: the same for all that have `shared` in common."""
    return SEEDS.start + _draw(f"{seed}/layout/{block}/{attempt}/{shared}") % len(SEEDS)


def placing_order(seed: int, variants: Iterable[str], block: int, attempt: int) -> list[str]:
    """In which a block's relinked programs are made and placed: what is first on the host is not always one arm's."""
    return sorted(variants, key=lambda name: _draw(f"{seed}/placing/{block}/{attempt}/{name}"))


def _draw(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")

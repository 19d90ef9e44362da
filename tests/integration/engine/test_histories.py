"""Histories of concurrent clients over crashes, failovers, pauses, partitions and power cuts are linearizable.

docs/explanation/correctness.md says what is checked. tools/find_mutations.py measures which faults it finds.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.history.nemesis import Progress, play

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(
    "setting", ["persistent", "ephemeral", pytest.param("power", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("rounds", [3, pytest.param(40, marks=pytest.mark.long)])
def test_histories(setting: str, rounds: int, kv_engine: Path, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)

    def done(progress: Progress) -> bool:
        return progress.rounds >= rounds

    try:
        end = play(setting, kv_engine, tmp_path, done, seed=seed)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    assert end.operations > 100 * rounds, "too little load to find anything"

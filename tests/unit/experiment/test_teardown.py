"""The way out of a trial: a host that is gone does not keep the engines of the others running."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perfrunner.errors import HostError
from perfrunner.experiment.trial.bench import Bench
from perfrunner.experiment.trial.outcome import try_each
from tests.support.trials import open_trial


@dataclass
class Handle:
    host: str
    stopped: list[str] = field(default_factory=list)
    gone: bool = False

    def stop(self, grace_s: float) -> None:
        if self.gone:
            raise HostError(f"{self.host}: cannot connect")
        self.stopped.append(self.host)


def test_each_step_is_tried_and_the_first_failure_is_reported() -> None:
    done: list[int] = []

    def step(number: int, *, fails: bool) -> None:
        done.append(number)
        if fails:
            raise HostError(f"step {number}")

    with pytest.raises(HostError, match="step 2"):
        try_each([lambda n=n: step(n, fails=n % 2 == 0) for n in range(1, 5)])  # type: ignore[misc]
    assert done == [1, 2, 3, 4]


def test_what_runs_on_other_hosts_is_stopped(tmp_path: Path) -> None:
    bench = Bench(
        engines=[],
        placements=[],
        trial=open_trial(tmp_path),
        seed=1,
        vbuckets=16,
        replicas=0,
    )
    handles: list[Any] = [Handle("one"), Handle("two", gone=True), Handle("three", gone=True)]
    bench._processes = handles
    with pytest.raises(HostError, match="three"):
        bench.abandon(1.0)
    assert handles[0].stopped == ["one"]

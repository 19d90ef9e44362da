"""When a step began and ended, on the clock of the load next to it."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from perfrunner.experiment.trial import cluster

AHEAD_S = 500.0  # the load's host


class Host:
    name = "load1"

    def run(self, _command: list[str]) -> SimpleNamespace:
        return SimpleNamespace(stdout=f"{time.time() + AHEAD_S:.9f}\n")

    def exists(self, _path: str) -> bool:
        return True

    def read_text(self, _path: str) -> str:
        return str(int((time.time() + AHEAD_S) * 1e9))


class Bench:
    def __init__(self) -> None:
        self.placements = [SimpleNamespace(host=Host(), tools="/t", directory="/d")]
        recorder = SimpleNamespace(wait_for_file=lambda *_: None, signal=lambda *_: None)
        self.trial = SimpleNamespace(recorder=recorder)

    def start_clients(self, *_: object, **__: object) -> list[SimpleNamespace]:
        handle = SimpleNamespace(poll=lambda: None, signal=lambda _: None)
        return [SimpleNamespace(placement=self.placements[0], name="pf", handle=handle)]

    def pause(self, seconds: float, _look: object) -> None:
        time.sleep(seconds)

    def wait_clients(self, *_: object) -> None: ...

    def check_engines(self) -> None: ...

    def printed(self, _started: object) -> list[str]:
        return []


@pytest.mark.parametrize("stepped", [3600.0, -3600.0])
def test_a_clock_that_is_stepped_here_moves_no_window(
    monkeypatch: pytest.MonkeyPatch, stepped: float
) -> None:
    shift = [0.0]
    clocks = SimpleNamespace(
        time=lambda: time.time() + shift[0], monotonic=time.monotonic, sleep=time.sleep
    )
    monkeypatch.setattr(cluster, "time", clocks)

    def step() -> dict[str, float]:
        shift[0] += stepped
        time.sleep(0.2)
        return {}

    bench: Any = Bench()
    around = cluster.load_around(
        bench, "pillowfight", lambda _: [], step, output="o", before=0.1, after=0.0
    )
    assert 0.1 <= around.began < abs(stepped) / 2
    assert 0.2 <= around.ended - around.began < abs(stepped) / 2

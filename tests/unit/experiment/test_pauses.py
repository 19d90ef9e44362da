"""A machine that stands still during a trial."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfrunner.experiment.trial import outcome, runner
from perfrunner.experiment.trial.outcome import PauseWatch, watch_pauses
from perfrunner.experiment.trial.runner import TrialRunner
from perfrunner.hosts import CommandTimeout


def reasons(times: Sequence[float]) -> Sequence[str]:
    """Return the reasons that a watch gives when it is woken at these times."""
    clock = iter(times)
    ends = iter([False] * (len(times) - 2) + [True])
    watch = PauseWatch(lambda: next(clock))
    watch.watch(lambda _: next(ends))
    return watch.reasons


@pytest.mark.parametrize(
    "times",
    [[0.0, 0.25, 30.3, 30.5], [0.0, 30.1], [5.0, 5.2, 5.5, 35.5]],
    ids=["in the middle", "at once", "at the end"],
)
def test_a_pause_is_named(times: list[float]) -> None:
    (reason,) = reasons(times)
    assert reason.startswith("this machine stood still for 30 s")


def test_a_busy_host_is_not_a_pause() -> None:
    assert reasons([0.0, 0.25, 2.0, 4.5, 9.0, 9.2]) == []


def test_the_thread_measures_until_the_trial_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "PAUSE_TICK_S", 0.0)
    woken = threading.Event()
    times = iter([0.0, 0.1])

    def clock() -> float:
        now = next(times, 40.0)
        if now == 40.0:
            woken.set()
        return now

    watch = PauseWatch(clock)
    with watch_pauses(watch):
        assert woken.wait(300)
    assert "stood still for 40 s" in watch.reasons[0]
    assert not any(thread.name == "pauses" for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("times", "status"), [([0.0, 70.0], "discarded"), ([0.0, 0.2], "failed")], ids=["pause", "none"]
)
@pytest.mark.parametrize("transport", ["ssh", "local"])
def test_a_trial_whose_time_outs_pass_during_a_pause_is_discarded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: list[float], status: str, transport: str
) -> None:
    """A laptop that drives other hosts may sleep for longer than a time-out."""

    @contextlib.contextmanager
    def watched(watch: PauseWatch) -> Iterator[None]:
        clock = iter(times)
        monkeypatch.setattr(watch, "_clock", lambda: next(clock))
        watch.watch(lambda _: True)
        yield

    def time_out(*_: object) -> None:
        raise CommandTimeout("kv1: sh did not end within 60 s")

    monkeypatch.setattr(runner, "watch_pauses", watched)
    monkeypatch.setattr(TrialRunner, "_measure", time_out)
    cluster = SimpleNamespace(transport=transport)
    setup: Any = SimpleNamespace(spec=SimpleNamespace(cluster=cluster), hosts=[])
    variants: Any = [SimpleNamespace(task=SimpleNamespace(variant=name)) for name in ("a", "b")]
    outcomes = TrialRunner(setup, tmp_path, list)._outcomes(variants)
    assert [outcome for outcome, _, _ in outcomes] == [status] * 2
    assert all("sh did not end" in reason for _, reason, _ in outcomes)

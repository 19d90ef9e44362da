"""Which cases of a run under the precision rule go on when it is resumed, or extended."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perfrunner.domain import TrialKey
from perfrunner.experiment.outdir import Journal
from perfrunner.experiment.schedule import Schedule
from perfrunner.experiment.session import RunContext
from perfrunner.experiment.stopping import StoppingRule
from perfrunner.results.database_errors import ServerAwayError
from perfrunner.spec.model import Spec

CASE = ("pf", "persistent")
OTHER = ("app", "persistent")


def plan_block(block: int) -> tuple[TrialKey, ...]:
    trials = [(w, b, v) for w, b in (CASE, OTHER) for v in "ab"]
    return tuple(TrialKey(block, 1, i, *trial) for i, trial in enumerate(trials, 1))


def stopped(case: tuple[str, str], block: int, half_width: float | None) -> dict[str, Any]:
    return {
        "case": case,
        "block": block,
        "clean": block,
        "half_width": half_width,
        "wanted": 0.01,
        "decision": "stop",
    }


def recalled(
    directory: Path, stops: list[dict[str, Any]], facts: dict[str, Any], blocks: int = 44
) -> tuple[dict[tuple[str, str], int], list[Any]]:
    """The last block that is planned of each case, and what was reported."""
    journal = Journal(directory / "journal.jsonl")
    for stop in stops:
        journal.append("precision", **stop)
    planned = [trial for block in range(1, blocks + 1) for trial in plan_block(block)]
    schedule = Schedule(planned, max_discarded=10, redo_order=lambda _case, _attempt: ())
    output: list[Any] = []
    session = SimpleNamespace(resumed=True, experiment=SimpleNamespace(facts=facts))
    cases = StoppingRule(
        RunContext(
            spec=cast(Spec, SimpleNamespace(cases=(CASE, OTHER), precision=0.01)),
            session=cast(Any, session),
            store=cast(Any, None),
            journal=journal,
            guard=cast(Any, None),
            listener=cast(Any, SimpleNamespace(on_event=output.append)),
        ),
        cast(Any, SimpleNamespace(schedule=schedule, foresee=lambda _case, _trials: None)),
        plan_block,
    )
    cases.recall()
    last: dict[tuple[str, str], int] = {}
    for unit in iter(schedule.next, None):
        (task,) = unit.tasks
        schedule.record(task, "ok")
        last[task.workload, task.bucket] = task.block
    return last, output


def extended(first: int, last: int) -> dict[str, Any]:
    return {"extended": [{"from": first, "to": last, "at": "2026-11-25T01:00:00+00:00"}]}


@pytest.mark.parametrize("half_width", [0.02, None])
def test_a_case_that_ran_out_of_blocks_takes_part_in_those_that_are_added(
    tmp_path: Path, half_width: float | None
) -> None:
    stops = [stopped(CASE, 40, half_width), stopped(OTHER, 12, 0.009)]
    last, output = recalled(tmp_path, stops, extended(40, 44))
    assert last == {CASE: 44, OTHER: 12}, "one that is precise has enough"
    assert output == []


def test_without_an_extension_every_case_that_ended_has_ended(tmp_path: Path) -> None:
    last, _ = recalled(tmp_path, [stopped(CASE, 40, 0.02), stopped(OTHER, 12, 0.009)], {})
    assert last == {CASE: 40, OTHER: 12}


def test_a_case_that_ended_within_the_added_blocks_has_ended(tmp_path: Path) -> None:
    stops = [stopped(CASE, 40, 0.02), stopped(OTHER, 40, 0.02), stopped(CASE, 42, 0.009)]
    last, _ = recalled(tmp_path, stops, extended(40, 44))
    assert last == {CASE: 42, OTHER: 44}


def test_blocks_that_are_added_for_nothing_are_reported(tmp_path: Path) -> None:
    stops = [stopped(CASE, 14, 0.009), stopped(OTHER, 12, 0.008)]
    last, output = recalled(tmp_path, stops, extended(14, 44))
    assert last == {CASE: 14, OTHER: 12}
    assert "as precise as the spec requires" in output[0].message


def test_a_results_server_that_is_away_for_a_moment_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfrunner.results.database.AGAIN_S", 0.0)
    monkeypatch.setattr("perfrunner.experiment.stopping.case_widths", lambda _data: {})
    loaded: list[str] = []

    def load(experiment_id: str) -> None:
        loaded.append(experiment_id)
        if len(loaded) == 1:
            raise ServerAwayError("postgresql://server: connection refused")

    rule = StoppingRule(
        RunContext(
            spec=cast(Spec, SimpleNamespace(cases=(), precision=0.01)),
            session=cast(Any, SimpleNamespace(experiment=SimpleNamespace(id="e1", facts={}))),
            store=cast(Any, SimpleNamespace(load=load)),
            journal=Journal(tmp_path / "journal.jsonl"),
            guard=cast(Any, None),
            listener=cast(Any, None),
        ),
        cast(Any, SimpleNamespace(schedule=SimpleNamespace(block_complete=lambda _block: True))),
        plan_block,
    )
    assert rule.look(1, 10) == 10
    assert loaded == ["e1", "e1"]

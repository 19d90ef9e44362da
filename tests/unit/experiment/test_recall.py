"""Test that a resumed run continues from the stored trials."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perfrunner.experiment.plan import make_plan
from perfrunner.experiment.recorder import Recorder
from perfrunner.experiment.schedule import Schedule
from perfrunner.experiment.session import RunContext
from perfrunner.results import TrialRecord
from perfrunner.spec.loader import load_spec
from tests.support.fakes import spec_text

THEN = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(("facts", "attempt"), [({}, 1), ({"changed_after": [1]}, 2)])
def test_a_case_begins_again_if_the_hosts_changed_within_it(
    tmp_path: Path, facts: dict[str, Any], attempt: int
) -> None:
    """The run that saw the change may have ended before it stored a trial."""
    path = tmp_path / "spec.yaml"
    path.write_text(spec_text(tmp_path / "work", schedule="sequential", blocks=1))
    spec = load_spec(path, [], None)
    plan = make_plan(spec, 5)
    planned = plan.trials
    first = planned[0]
    stored = TrialRecord(
        block=1, attempt=1, position=1, workload=first.workload, bucket=first.bucket,
        variant=first.variant, build_id="", status="ok", reason="", started_at=THEN, finished_at=THEN,
        metrics={}, group=first.group,
    )  # fmt: skip
    schedule = Schedule(planned, max_discarded=10, redo_order=plan.redo_order)
    session = SimpleNamespace(experiment=SimpleNamespace(facts=facts), trials=[stored])
    recorder = Recorder(
        RunContext(
            spec=spec,
            session=cast(Any, session),
            store=cast(Any, None),
            journal=cast(Any, None),
            guard=cast(Any, None),
            listener=cast(Any, None),
        ),
        schedule,
    )
    recorder.recall()
    unit = schedule.next()
    assert unit is not None
    assert unit.tasks[0].attempt == attempt

"""A fleet whose groups are hosts of the lab, so that a worker reaches them by SSH alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fakes import PILLOWFIGHT, variant
from tests.support.fleetlab import PATIENCE_S, FleetLab
from tools.lab import Lab

pytestmark = [pytest.mark.integration, pytest.mark.long]

BLOCKS = 3
GROUPS = {"single": (["lab1"], ["lab1"]), "pair": (["lab2"], ["lab3"])}


@pytest.fixture
def fleet(lab: Lab, tmp_path: Path) -> Iterator[FleetLab]:
    fleet = FleetLab(tmp_path)
    slow = variant(sleep=1)
    fleet.write(
        list(GROUPS),
        clusters={name: lab.cluster_document(*hosts) for name, hosts in GROUPS.items()},
        workloads={"pf": {**PILLOWFIGHT, "schedule": "sequential"}},
        primary=["ops_per_s"],
        variants={"base": slow, "changed": slow},
        blocks=BLOCKS,
    )
    yield fleet
    fleet.close()


def test_a_worker_that_was_killed_leaves_its_hosts_to_the_next_and_its_jobs_go_on(
    lab: Lab, fleet: FleetLab
) -> None:
    jobs = {group: fleet.submit(group) for group in GROUPS}
    fleet.drive("east")
    experiments = {
        group: fleet.wait_until_it_measures(job).progress.experiment for group, job in jobs.items()
    }
    fleet.kill("east")
    assert {s.state for s in fleet.statuses()} == {"running"}, [s.ending for s in fleet.statuses()]
    assert fleet.drive("east", "--drain").wait(PATIENCE_S) == 0, fleet.output_of("east")
    for group, job in jobs.items():
        fleet.wait_until(job, "done")
        fleet.assert_complete(group, BLOCKS)
        assert fleet.results(group)[0].experiment.id == experiments[group]
        events = fleet.events(group, experiments[group])
        assert events[0] == "begun"
        assert "resumed" in events
        assert events[-1] == "finished"
    lab.assert_idle()


def test_a_host_that_stays_away_fails_its_groups_job_and_the_others_go_on(
    lab: Lab, fleet: FleetLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATIENCE_S", "5")
    lost, other = (fleet.submit(group) for group in ("pair", "single"))
    fleet.drive("east", "--drain")
    experiment = fleet.wait_until_it_measures(lost).progress.experiment
    assert experiment is not None
    lab.cut("lab3")
    ending = fleet.wait_until(lost, "failed").ending
    assert ending is not None
    assert "lab3" in ending.message, ending.message
    fleet.wait_until(other, "done")
    assert fleet.workers["east"].wait(PATIENCE_S) == 0, fleet.output_of("east")
    fleet.assert_complete("single", BLOCKS)
    assert fleet.events("pair", experiment)[0] == "begun"
    (cut,) = fleet.results("pair")
    kept = [trial for trial in cut.trials if trial.status == "ok"]
    assert 1 <= len(kept) < 2 * BLOCKS
    lab.heal("lab3")
    again = fleet.submit("pair")
    assert fleet.drive("east", "--drain").wait(PATIENCE_S) == 0, fleet.output_of("east")
    fleet.wait_until(again, "done")
    lab.assert_idle()

"""Workers, groups and what may happen to them, with either queue: real runs of fake engines."""

from __future__ import annotations

import base64
import pickle
import signal
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.integration.postgres import Postgres
from tests.support.fakes import variant
from tests.support.fleetlab import PATIENCE_S, FleetLab

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1200)]


class Touch:
    """An object whose unpickling creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.path,)


SLOW = {"base": variant(bench_sleep=0.7), "changed": variant(bench_sleep=0.7)}


@pytest.fixture(params=["file", "postgresql"])
def lab(lab: FleetLab, request: pytest.FixtureRequest) -> FleetLab:
    """The queue is a file, as on a laptop, or on a server, as of a fleet."""
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("server")
        lab.database = server.new_database()
    return lab


def test_two_workers_serve_three_groups_one_job_at_a_time_in_each(lab: FleetLab) -> None:
    lab.write("abc", blocks=1)
    for group in "abc":
        lab.submit(group)
        lab.submit(group)
    for name in ("east", "west"):
        lab.drive(name, "--drain")
    for worker in lab.workers.values():
        assert worker.wait(PATIENCE_S) == 0
    assert {s.state for s in lab.statuses()} == {"done"}, lab.output_of("east") + lab.output_of(
        "west"
    )
    for group in "abc":
        lab.assert_complete(group, blocks=1, experiments=2)
        lab.assert_one_after_the_other(group)
    assert ": waiting:" not in lab.output_of("east") + lab.output_of("west"), "no lock had to judge"


def test_a_worker_does_not_run_a_pickled_job(lab: FleetLab, tmp_path: Path) -> None:
    """The job behind it runs, and the pickled one ends as failed."""
    lab.write("a", blocks=1)
    pickled, honest = lab.submit("a"), lab.submit("a")
    ran = tmp_path / "ran"
    payload = base64.b64encode(pickle.dumps(Touch(ran))).decode()
    with lab.queue() as queue, queue.engine.begin() as connection:
        schema = "" if queue.engine.dialect.name == "sqlite" else "dbos."
        for table, column, value in (
            ("workflow_input", "inputs", payload),
            ("workflow_status", "serialization", "py_pickle"),
        ):
            connection.execute(
                text(f"UPDATE {schema}{table} SET {column} = :value WHERE workflow_uuid = :id"),
                {"value": value, "id": pickled},
            )
    assert lab.drive("east", "--drain").wait(PATIENCE_S) == 0
    states = {status.job.id: status.state for status in lab.statuses()}
    assert states == {pickled: "failed", honest: "done"}, lab.output_of("east")
    assert not ran.exists()


def test_a_lower_priority_number_runs_first(lab: FleetLab) -> None:
    lab.write("a", blocks=1)
    usual, urgent, soon = (lab.submit("a", "--priority", n) for n in ("100", "10", "50"))
    assert lab.drive("east", "--drain").wait(PATIENCE_S) == 0
    begun = sorted(lab.statuses(), key=lambda s: s.ended_at)
    assert [s.job.id for s in begun] == [urgent, soon, usual]
    lab.assert_one_after_the_other("a")


def test_a_worker_that_was_killed_goes_on_when_it_is_back(lab: FleetLab) -> None:
    lab.write("a", blocks=4, variants=SLOW)
    job = lab.submit("a")
    lab.drive("east")
    messages = lab.wait_until_it_measures(job)
    assert (messages.progress.total, messages.worker) == (8, "east")
    assert messages.progress.seconds_left is not None
    lab.kill("east")
    lab.wait_for(job, lambda _: lab.events("a", messages.progress.experiment)[-1] == "interrupted")
    (cut,) = lab.results("a")
    assert 1 <= len(cut.trials) < 8
    assert lab.statuses()[0].state == "running", "it is its worker's until somebody says otherwise"
    assert lab.drive("east", "--drain").wait(PATIENCE_S) == 0
    assert lab.wait_until(job, "done").ending.experiment == cut.experiment.id  # type: ignore[union-attr]
    lab.assert_complete("a", blocks=4)
    events = lab.events("a", cut.experiment.id)
    assert events == ["begun", "interrupted", "resumed", "finished"]
    (whole,) = lab.results("a")
    assert whole.trials[: len(cut.trials)] == cut.trials, "what was measured is not measured again"


def test_another_worker_takes_over_only_when_it_is_asked_to(lab: FleetLab) -> None:
    lab.write("ab", blocks=3, variants=SLOW)
    job = lab.submit("a")
    lab.drive("east", "-g", "a")
    lab.wait_until_it_measures(job)
    lab.kill("east")
    lab.drive("west")
    beside = lab.submit("b")
    lab.wait_until(beside, "done")
    (there,) = [s for s in lab.statuses() if s.job.id == job]
    assert (there.state, there.worker) == ("running", "east"), "west has looked meanwhile"
    assert "perfrunner fleet recover east" in lab.call("status").stderr
    assert lab.call("recover", "east").stdout == f"{job} requeued\n"
    assert lab.wait_until(job, "done").worker == "west"
    lab.assert_complete("a", blocks=3)
    assert lab.call("recover", "east").stdout == ""


def test_a_frozen_worker_loses_nothing(lab: FleetLab) -> None:
    lab.write("ab", blocks=2, variants=SLOW)
    job = lab.submit("a")
    frozen = lab.drive("east", "-g", "a")
    messages = lab.wait_until_it_measures(job)
    frozen.send_signal(signal.SIGSTOP)
    lab.drive("west", "-g", "a", "-g", "b")
    beside = lab.submit("b")
    after = lab.submit("a")
    lab.wait_until(beside, "done")
    lab.wait("its run ends", lambda: lab.results("a")[0].experiment.state == "done")
    states = {s.job.id: s.state for s in lab.statuses()}
    assert states == {job: "running", after: "queued", beside: "done"}
    frozen.send_signal(signal.SIGCONT)
    assert lab.wait_until(job, "done").worker == "east"
    lab.wait_until(after, "done")
    lab.assert_complete("a", blocks=2, experiments=2)
    assert lab.events("a", messages.progress.experiment) == ["begun", "finished"]


def test_a_frozen_worker_that_was_given_up_yields_when_it_thaws(lab: FleetLab) -> None:
    lab.write("a", blocks=12, variants=SLOW)
    job = lab.submit("a")
    frozen = lab.drive("east")
    messages = lab.wait_until_it_measures(job)
    frozen.send_signal(signal.SIGSTOP)
    lab.drive("west")
    assert "worker east is still running (pid" in lab.call("recover", "east", code=2).stderr
    lab.call("recover", "east", "--force")
    waiting = lab.wait_for(job, lambda s: bool(s.progress.waiting), "west waits for the lock")
    assert waiting.worker == "west"
    assert "is in use by another run" in waiting.progress.waiting
    assert "waiting" in lab.call("status").stdout
    assert lab.events("a", messages.progress.experiment) == ["begun"], "never two runs at a time"
    frozen.send_signal(signal.SIGCONT)
    lab.wait("east stops its run", lambda: "given to another worker" in lab.output_of("east"))
    assert lab.wait_until(job, "done").worker == "west"
    lab.assert_complete("a", blocks=12)
    assert lab.events("a", messages.progress.experiment) == [
        "begun", "interrupted", "resumed", "finished",
    ]  # fmt: skip


def test_a_cancelled_job_stops_and_makes_room(lab: FleetLab) -> None:
    lab.write("a", blocks=100, variants=SLOW)
    job = lab.submit("a")
    after = lab.submit("a", "--repeats", "1")
    lab.drive("east", "--drain")
    messages = lab.wait_until_it_measures(job)
    output = lab.call("cancel", job)
    assert output.stdout == f"{job} cancelled\n"
    assert f"perfrunner run --resume {messages.progress.experiment}" in output.stderr
    assert lab.workers["east"].wait(PATIENCE_S) == 0
    assert {s.job.id: s.state for s in lab.statuses()} == {job: "cancelled", after: "done"}
    states = {single.experiment.id: single.experiment.state for single in lab.results("a")}
    assert states.pop(messages.progress.experiment) == "interrupted"
    assert list(states.values()) == ["done"]


def test_a_worker_that_ends_in_order_gives_its_jobs_back(lab: FleetLab) -> None:
    lab.write("a", blocks=4, variants=SLOW)
    job = lab.submit("a")
    lab.drive("east")
    messages = lab.wait_until_it_measures(job)
    assert lab.end("east") == 130
    assert f"{job}: requeued" in lab.output_of("east")
    (status,) = lab.statuses()
    assert status.state == "queued"
    assert lab.events("a", messages.progress.experiment)[-1] == "interrupted"
    assert lab.drive("west", "--drain").wait(PATIENCE_S) == 0
    assert lab.wait_until(job, "done").worker == "west"
    lab.assert_complete("a", blocks=4)


def test_a_run_that_fails_says_why(lab: FleetLab) -> None:
    lab.write(
        "a", blocks=1, variants={"base": variant(bench_fail=1), "changed": variant(bench_fail=1)}
    )
    job = lab.submit("a")
    lab.drive("east", "--drain").wait(PATIENCE_S)
    status = lab.wait_until(job, "failed")
    assert status.ending is not None
    assert status.ending.code == 3
    assert "the bench gave up" in status.ending.message
    assert "the bench gave up" in " ".join(lab.call("status").stdout.split()), "in lines of a table"


def test_a_group_whose_host_cannot_be_used_fails_alone(lab: FleetLab) -> None:
    lab.write("ab", blocks=1)
    lab.work("a").parent.mkdir(parents=True, exist_ok=True)
    lab.work("a").write_text("no directory")
    first, second = lab.submit("a"), lab.submit("b")
    assert lab.drive("east", "--drain").wait(PATIENCE_S) == 0
    status = lab.wait_until(first, "failed")
    assert status.ending is not None
    assert str(lab.work("a")) in status.ending.message
    lab.wait_until(second, "done")
    lab.assert_complete("b", blocks=1)


def test_one_worker_of_a_name(lab: FleetLab) -> None:
    lab.write("a", blocks=1)
    lab.submit("a", "--repeats", "100")
    lab.drive("east")
    lab.wait("it drives", lambda: "serves a" in lab.output_of("east"))
    output = lab.call("workers", "--name", "east", code=2).stderr
    assert "there is a worker east already" in output

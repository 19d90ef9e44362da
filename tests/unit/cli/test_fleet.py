"""`perfrunner fleet` without a worker: what is queued and what is refused."""

from __future__ import annotations

import importlib.util
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from perfrunner.cli import fleet as fleet_command
from perfrunner.fleet.job import Job, Progress
from perfrunner.fleet.queue import DbosQueue
from perfrunner.fleet.workers import Workers
from tests.unit.cli.conftest import Cli

CLUSTER = """\
name: {0}
transport: ssh
hosts: {{kv: {{address: {0}.example.org}}}}
engine_nodes: [kv]
load_clients: [kv]
"""
FLEET = """\
groups:
  lab-a: {cluster: a.yaml}
  lab-b: {cluster: b.yaml}
nightly:
  - {spec: spec.yaml, groups: [lab-a, lab-b], repeats: 20, priority: 50}
"""


class Nights:
    """The time of day as a test wants it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fleet_command, "_now", lambda: self.now)
        self.at("2026-11-20 22:00")

    def at(self, text: str) -> None:
        self.now = datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def nights(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Nights:
    for name in "ab":
        Path(f"{name}.yaml").write_text(CLUSTER.format(name))
    Path("fleet.yaml").write_text(f"timezone: UTC\n{FLEET}")
    monkeypatch.delenv("PERFRUNNER_FLEET", raising=False)
    return Nights(monkeypatch)


def jobs() -> list[Job]:
    queue = DbosQueue.open("fleet.sqlite", create=False)
    try:
        return [status.job for status in queue.jobs()]
    finally:
        queue.close()


def test_each_command_has_help_with_an_example(cli: Cli) -> None:
    for name in ("submit", "schedule", "workers", "status", "cancel", "recover", "clean"):
        text = cli("fleet", name, "-h").stdout
        assert f"perfrunner fleet {name}" in text
        assert "Example" in text


def test_a_job_is_what_a_worker_will_call(cli: Cli, tmp_path: Path) -> None:
    printed = cli(
        "fleet", "submit", "spec.yaml", "-g", "lab-a", "--repeats", "3", "--set", "workloads.pf.items=5k",
        "--workloads", "pf", "--fail-on", "worse", "--tune", "--engine-src", "src", "--priority", "7",
    ).stdout.split()  # fmt: skip
    (job,) = jobs()
    assert [job.id] == printed
    assert (job.name, job.group, job.priority, job.night) == ("small", "lab-a", 7, None)
    assert job.run_args() == [
        "run", str(tmp_path / "spec.yaml"), "--cluster", str(tmp_path / "a.yaml"),
        "--set", "workloads.pf.items=5k", "--repeats", "3", "--workloads", "pf",
        "--out", str(tmp_path / "results/lab-a"),
        "--tune", "--cache", str(tmp_path / "cache"), "--engine-src", str(tmp_path / "src"), "--fail-on", "worse",
    ]  # fmt: skip
    assert job.directory == str(tmp_path)


def test_a_job_does_not_carry_the_password_of_its_store(cli: Cli) -> None:
    Path("fleet.yaml").write_text(f"store: postgresql://me:s3cret@db/results\n{FLEET}")
    cli("fleet", "submit", "spec.yaml", "-g", "lab-a")
    cli("fleet", "schedule")
    assert {job.store for job in jobs()} == {"postgresql+psycopg://me@db/results"}
    assert b"s3cret" not in Path("fleet.sqlite").read_bytes()


def test_the_source_that_the_environment_names_travels_along(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src" / "options").mkdir(parents=True)
    (tmp_path / "src" / "CMakeLists.txt").touch()
    monkeypatch.setenv("PERFRUNNER_ENGINE_SRC", "src")
    cli("fleet", "submit", "spec.yaml", "-g", "lab-a")
    (job,) = jobs()
    assert job.always[-2:] == ("--engine-src", str(tmp_path / "src"))


def test_one_call_may_queue_on_several_groups(cli: Cli) -> None:
    answer = cli.json("fleet", "submit", "spec.yaml", "-g", "lab-a", "-g", "lab-b", "-g", "lab-a")
    assert [(j["group"], j["queued"]) for j in answer["jobs"]] == [("lab-a", True), ("lab-b", True)]
    assert {j["job"] for j in answer["jobs"]} == {job.id for job in jobs()}


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["spec.yaml"], "--group lab-a | lab-b"),
        (["spec.yaml", "-g", "lab-c"], "--group lab-c: expected a group of the fleet file: lab-a, lab-b"),
        (["none.yaml", "-g", "lab-a"], "none.yaml: cannot be read: no such file"),
        (["spec.yaml", "-g", "lab-a", "--set", "blokcs=3"], "did you mean blocks?"),
        (["spec.yaml", "-g", "lab-a", "--workloads", "pg"], "expected a workload of the spec: pf, ap; got pg"),
        (["spec.yaml", "-g", "lab-a", "--fleet", "flet.yaml"], "flet.yaml: no such fleet file"),
    ],
)  # fmt: skip
def test_what_could_not_run_is_not_queued(cli: Cli, words: list[str], output: str) -> None:
    assert output in cli("fleet", "submit", *words, code=2).stderr
    assert not Path("fleet.sqlite").exists()


def test_a_night_is_queued_once_however_often_cron_fires(cli: Cli, nights: Nights) -> None:
    first = cli("fleet", "schedule").stdout.split()
    assert first == ["small-lab-a-night-20261120", "small-lab-b-night-20261120"]
    nights.at("2026-11-21 03:00")
    again = cli("fleet", "schedule")
    assert again.stdout == ""
    assert "small-lab-a-night-20261120 was not queued: it exists already" in again.stderr
    assert [(j.id, j.priority, j.measured, j.night) for j in jobs()] == [
        (name, 50, ("--repeats", "20"), "2026-11-20") for name in first
    ]
    cli("fleet", "cancel", first[0])
    assert cli("fleet", "schedule").stdout == "", "not even when it was cancelled"


def test_nights_do_not_pile_up(cli: Cli, nights: Nights) -> None:
    cli("fleet", "schedule")
    cli("fleet", "cancel", "small-lab-b-night")
    nights.at("2026-11-21 22:00")
    second = cli("fleet", "schedule")
    assert second.stdout.split() == ["small-lab-b-night-20261121"]
    why = "small-lab-a-night-20261121 was not queued: small-lab-a-night-20261120 has not ended"
    assert why in second.stderr


def test_two_specs_of_a_name_are_no_two_jobs_of_a_night(cli: Cli) -> None:
    Path("other.yaml").write_text(Path("spec.yaml").read_text())
    Path("fleet.yaml").write_text(f"{FLEET}  - {{spec: other.yaml, groups: [lab-a]}}\n")
    output = cli("fleet", "schedule", code=2).stderr
    assert "two specs of group lab-a have the name small" in output


def test_a_job_has_no_path_that_another_machine_could_not_read(cli: Cli) -> None:
    name = os.fsdecode(b"n\xe9w.yaml")
    Path(name).write_text(Path("spec.yaml").read_text())
    refused = cli("fleet", "submit", name, "-g", "lab-a", code=2)
    assert (
        "n\N{REPLACEMENT CHARACTER}w.yaml: a job of a fleet needs paths in UTF-8" in refused.stderr
    )


def test_submit_has_nights_too(cli: Cli) -> None:
    words = ("fleet", "submit", "spec.yaml", "-g", "lab-a", "--night")
    assert cli(*words).stdout.split() == ["small-lab-a-night-20261120"]
    assert cli(*words).stdout == ""
    (job,) = jobs()
    assert job.priority == 200


def test_status_tells_jobs_and_workers(cli: Cli) -> None:
    cli("fleet", "submit", "spec.yaml", "-g", "lab-a")
    (job,) = jobs()
    queue = DbosQueue.open("fleet.sqlite", create=False)
    queue.tell(job.id, Progress("small-1", 3, 8, 20.0, at=100.0))
    with Workers(queue.engine, queue.place).present("east", ["lab-a"]):
        text = cli("fleet", "status").stdout
        answer = cli.json("fleet", "status")
    queue.close()
    assert job.id in text
    assert "3/8" in text
    assert "east" in text
    (single,) = answer["jobs"]
    assert (single["state"], single["trials"], single["experiment"], single["worker"]) == (
        "queued", {"finished": 3, "total": 8}, "small-1", None,
    )  # fmt: skip
    (worker,) = answer["workers"]
    assert (worker["worker"], worker["groups"], worker["may_live"]) == ("east", ["lab-a"], True)


def test_status_of_an_empty_place(cli: Cli) -> None:
    output = cli("fleet", "status", code=3).stderr
    assert "no job was ever submitted" in output
    assert not Path("fleet.sqlite").exists()


def test_only_what_has_not_ended_is_cancelled(cli: Cli) -> None:
    cli("fleet", "submit", "spec.yaml", "-g", "lab-a", "-g", "lab-b")
    first, second = (job.id for job in jobs())
    assert cli("fleet", "cancel", first).stdout == f"{first} cancelled\n"
    output = cli("fleet", "cancel", second, first, code=2).stderr
    assert f"{first} has already ended: cancelled" in output
    states = {j["job"]: j["state"] for j in cli.json("fleet", "status")["jobs"]}
    assert states == {first: "cancelled", second: "queued"}, "all or none"


def test_old_jobs_are_forgotten_and_results_are_not(cli: Cli, nights: Nights) -> None:
    cli("fleet", "schedule")
    first, second = (job.id for job in jobs())
    cli("fleet", "cancel", first)
    kept = Path("results/lab-a/fleet")
    kept.mkdir(parents=True)
    (kept / f"{first}.log").write_text("said")
    nights.now = datetime.now(timezone.utc)
    assert "nothing to remove" in cli("fleet", "clean", "--keep", "0").stderr, "cron may fire again"
    nights.now += timedelta(days=3)
    assert "nothing to remove" in cli("fleet", "clean", "--keep", "1").stderr
    output = cli("fleet", "clean", "--keep", "0", "--dry-run").stdout
    assert output == f"{first} would be removed\n"
    assert len(jobs()) == 2
    assert cli("fleet", "clean", "--keep", "0").stdout == f"{first} removed\n"
    assert [job.id for job in jobs()] == [second], "it waits, however old it is"
    assert (kept / f"{first}.log").read_text() == "said"


def test_a_worker_that_lives_is_not_recovered(cli: Cli) -> None:
    cli("fleet", "submit", "spec.yaml", "-g", "lab-a")
    queue = DbosQueue.open("fleet.sqlite", create=False)
    with Workers(queue.engine, queue.place).present("east", ["lab-a"]):
        assert "worker east is still running (pid" in cli("fleet", "recover", "east", code=2).stderr
        assert "expected a worker: east; got esat" in cli("fleet", "recover", "esat", code=2).stderr
    assert "east has no job" in cli("fleet", "recover", "east").stderr
    queue.close()


def test_without_the_extra_the_remedy_is_reported(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    matches = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "dbos" else matches(n))
    output = cli("fleet", "status", code=2).stderr
    assert "perfrunner fleet needs dbos: not installed" in output
    assert "pip install 'perfrunner[fleet]'" in output

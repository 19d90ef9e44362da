"""Which call of `perfrunner run` a job is due, by what is stored of it; a script speaks as configured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from perfrunner.children import TIED
from perfrunner.experiment.outdir import PROGRESS, Journal
from perfrunner.fleet import child
from perfrunner.fleet.child import JobRun
from perfrunner.fleet.job import Ending, Job, Progress
from perfrunner.results import ExperimentRecord, ExperimentState, ResultStore
from perfrunner.results.database_errors import ServerAwayError

BUSY = "error: host kv1 is in use by run s-9 of perf@east (pid 7)"


class Bench:
    """A job, what was stored of it, and answers for its calls: (exit code or signal, what is reported)."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.out = directory / "out"
        self.answers = directory / "answers"
        self.answers.write_text("")
        self.heard: list[Progress] = []
        program = directory / "program.py"
        program.write_text(
            "import os, pathlib, signal, sys, json\n"
            f"place = pathlib.Path({str(self.answers)!r})\n"
            "first, _, rest = place.read_text().partition('\\n')\n"
            "place.write_text(rest)\n"
            "code, said = json.loads(first)\n"
            "print(said, os.environ['PERFRUNNER_JOB'], flush=True)\n"
            "os.kill(os.getpid(), -code) if code < 0 else sys.exit(code)\n"
        )
        monkeypatch.setattr(child, "PERFRUNNER", (sys.executable, str(program)))
        monkeypatch.setattr(child, "WAITS_S", (0.0,))
        job = Job(
            id="j1", name="s", spec="/s.yaml", group="g", cluster="local", out=str(self.out),
            directory=str(directory), measured=("--repeats", "3"), always=("--fail-on", "worse"),
        )  # fmt: skip
        self.run = JobRun(job, lambda: True, lambda: False, self.heard.append)

    def answer(self, *answers: tuple[int, str]) -> None:
        self.answers.write_text("".join(json.dumps(a) + "\n" for a in answers))

    def store(self, name: str, state: ExperimentState, job: str | None, **event: object) -> None:
        with ResultStore.open(self.out) as store:
            made = datetime.now(timezone.utc) + timedelta(seconds=len(store.list()))
            facts = {} if job is None else {"job": job}
            record = ExperimentRecord(name, "s", {}, "", "/s.yaml", 1, made, "0", facts, state)
            store.create_experiment(record)
        (self.out / name).mkdir()
        if event:
            journal = Journal(self.out / name / "journal.jsonl")
            journal.append(str(event.pop("event")), **event)
            journal.close()

    def calls(self) -> list[str]:
        text = self.run.log.read_text()
        return [line for line in text.splitlines() if line.startswith("$ ")]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_it_is_begun_where_nothing_is_stored(bench: Bench) -> None:
    bench.answer((0, "done"))
    assert bench.run.carry_out() == Ending(0)
    assert bench.calls() == [
        f"$ perfrunner run /s.yaml --cluster local --repeats 3 --out {bench.out} --fail-on worse"
    ]
    assert "done j1" in bench.run.log.read_text()


def test_only_its_own_run_is_gone_on_with(bench: Bench) -> None:
    bench.store("s-1", "interrupted", "j1")
    bench.store("s-2", "interrupted", "another")
    bench.store("s-3", "interrupted", None)
    bench.answer((1, "--fail-on worse: ops_per_s"))
    ending = bench.run.carry_out()
    assert ending == Ending(1, "s-1", "--fail-on worse: ops_per_s j1")
    assert ending.state == "worse"
    assert bench.calls() == [f"$ perfrunner run --resume s-1 --out {bench.out} --fail-on worse"]


@pytest.mark.parametrize(
    ("state", "event", "ending"),
    [
        ("done", {"event": "finished", "exit": 3}, Ending(3, "s-1")),
        ("failed", {"event": "failed", "error": "no disk"}, Ending(3, "s-1", "no disk")),
    ],
)
def test_a_run_that_ended_while_nobody_looked_is_not_called_again(
    bench: Bench, state: ExperimentState, event: dict[str, object], ending: Ending
) -> None:
    bench.store("s-1", state, "j1", **event)
    assert bench.run.carry_out() == ending
    assert not bench.run.log.exists()


def test_that_a_verdict_was_never_judged_is_reported(bench: Bench) -> None:
    bench.store("s-1", "done", "j1", event="finished", exit=0)
    ending = bench.run.carry_out()
    assert ending is not None
    assert ending.code == 0
    assert "--fail-on was not applied" in ending.message


def test_hosts_that_another_run_has_are_waited_for(bench: Bench) -> None:
    bench.answer((3, BUSY), (2, "error: /out is in use by another run (pid 8)"), (0, "done"))
    assert bench.run.carry_out() == Ending(0)
    assert len(bench.calls()) == 3
    assert [p.waiting for p in bench.heard] == [
        f"{BUSY.removeprefix('error: ')} j1", "/out is in use by another run (pid 8) j1",
    ]  # fmt: skip


def test_so_are_they_by_the_worker_after_it(bench: Bench) -> None:
    bench.store("s-1", "failed", "j1", event="failed", error="host kv1 is in use by run s-9")
    bench.answer((0, "done"))
    assert bench.run.carry_out() == Ending(0, "s-1")
    assert "--resume s-1" in bench.calls()[0]


def test_an_error_of_its_own_is_its_end(bench: Bench) -> None:
    bench.answer((2, "error: /s.yaml:3: blocks: expected a number"), (0, "never called"))
    assert bench.run.carry_out() == Ending(2, "", "/s.yaml:3: blocks: expected a number j1")


@pytest.mark.parametrize(
    "output", ["ModuleNotFoundError: No module named 'click'", "setpriv: cannot set it", ""]
)
def test_only_the_gates_word_is_a_verdict(bench: Bench, output: str) -> None:
    """Python and setpriv end with 1 as well."""
    bench.answer((1, output))
    ending = bench.run.carry_out()
    assert ending is not None
    assert (ending.code, ending.state) == (3, "failed")
    assert output in ending.message


AWAY = "error: postgresql://db/results: connection refused"


def test_a_run_whose_server_of_results_was_away_is_gone_on_with(bench: Bench) -> None:
    bench.answer((75, AWAY), (75, AWAY), (0, "done"))
    assert bench.run.carry_out() == Ending(0)
    assert len(bench.calls()) == 3
    assert [p.waiting for p in bench.heard] == [f"{AWAY.removeprefix('error: ')} j1"]


def test_so_is_it_by_the_worker_after_it(bench: Bench) -> None:
    bench.store("s-1", "failed", "j1", event="failed", error=AWAY, exit=75)
    bench.answer((0, "done"))
    assert bench.run.carry_out() == Ending(0, "s-1")
    assert "--resume s-1" in bench.calls()[0]


def test_a_run_that_was_killed_is_begun_again_but_not_for_ever(bench: Bench) -> None:
    bench.answer((-9, "x"), (0, "done"))
    assert bench.run.carry_out() == Ending(0)
    bench.answer(*[(-9, "x")] * 4, (0, "never called"))
    assert bench.run.carry_out() == Ending(3, "", "ended by SIGKILL, 4 times")


def test_a_job_that_is_not_wanted_is_not_begun(bench: Bench) -> None:
    bench.run.wanted = lambda: False
    assert bench.run.carry_out() is None
    assert not bench.run.log.exists()


def test_progress_is_what_the_journal_says_last(bench: Bench) -> None:
    bench.store("s-1", "running", "j1", event=PROGRESS, trials_finished=1, trials_total=8, seconds_left=70)  # fmt: skip
    journal = Journal(bench.out / "s-1" / "journal.jsonl")
    journal.append(PROGRESS, trials_finished=2, trials_total=8, seconds_left=60.5)
    journal.append("trial-started", block=2)
    journal.close()
    matches = bench.run._progress("s-1")
    assert (matches.experiment, matches.finished, matches.total, matches.seconds_left) == (
        "s-1", 2, 8, 60.5,
    )  # fmt: skip
    assert matches.at > 0


def test_a_journal_that_cannot_be_read_now_costs_no_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.store("s-1", "running", "j1")
    (bench.out / "s-1" / "journal.jsonl").mkdir()
    program = (sys.executable, "-c", "import time; time.sleep(0.5); print('whole')")
    monkeypatch.setattr(child, "PERFRUNNER", program)
    monkeypatch.setattr(child, "LOOK_S", 0.05)
    monkeypatch.setattr(child, "PROGRESS_S", 0.0)
    assert bench.run.carry_out() == Ending(0, "s-1")
    assert "whole" in bench.run.log.read_text()


def test_a_run_whose_worker_died_before_it_was_tied_does_not_begin(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    for parent, there in ((os.getppid(), False), (os.getpid(), True)):
        subprocess.run([*TIED, str(parent), "touch", str(begun)], check=False)
        assert begun.exists() is there


def test_a_server_of_results_that_is_away_is_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "LOOK_S", 0.0)
    answers = [ServerAwayError("postgresql://db/results: refused"), None]

    def find() -> ExperimentRecord | None:
        answer = answers.pop(0) if answers else None
        if answer is not None:
            raise answer
        return None

    monkeypatch.setattr(bench.run, "_find", find)
    bench.answer((0, "done"))
    assert bench.run.carry_out() == Ending(0, "")
    answers[:] = [ServerAwayError("postgresql://db/results: refused")]
    bench.run.wanted = iter([True, False, False]).__next__
    assert bench.run.carry_out() is None, "it is not begun anew where nobody knows what is stored"


def test_the_store_of_the_fleet_is_that_of_its_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the environment: every user of the machine reads command lines, and a URL may hold a password."""
    url = f"sqlite:///{tmp_path / 'all.sqlite'}"
    bench.run.job = replace(bench.run.job, store=url)
    program = tmp_path / "program.py"
    program.write_text(
        "import os; print('failed:', os.environ['PERFRUNNER_STORE'])\nraise SystemExit(3)\n"
    )
    ending = bench.run.carry_out()
    assert ending is not None
    assert url in ending.message
    assert "--store" not in bench.run.log.read_text()

"""A fleet in a directory: its groups are directories of this machine, its workers are processes."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from perfrunner.cli import main
from perfrunner.errors import StoreError
from perfrunner.experiment.outdir import read_journal
from perfrunner.fleet.file import Fleet, load_fleet
from perfrunner.fleet.job import JobStatus
from perfrunner.fleet.queue import DbosQueue
from perfrunner.results import ExperimentData, open_store
from tests.support.fakes import ROOT, processes_of, spec_text, variant
from tests.support.fleet import PERFRUNNER

# The cheapest of trials: a program, no engine.
BENCH = {"type": "microbench", "program": "checkpoint_bench", "schedule": "sequential"}
PRIMARY = ["CheckpointBench/GetCursorsToDrop/10"]
BEGINNINGS = ("begun", "resumed")
ENDS = ("interrupted", "finished", "failed")
PATIENCE_S = 300.0  # of a busy machine; nothing here depends on how long it takes


@dataclass
class FleetLab:
    """Each group's host has a work directory below `directory`; runs are made of fakes (tests/support/fleet.py)."""

    directory: Path
    database: str | None = None  # of the queue; None: a file
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def write(
        self,
        groups: Sequence[str],
        store: str | None = None,
        clusters: Mapping[str, object] | None = None,
        **spec: object,
    ) -> None:
        """Write the fleet file. `clusters` of the groups; default: each is this machine with its own work directory."""
        variants = {"base": variant(), "changed": variant()}
        bench = {"workloads": {"bench": BENCH}, "primary": PRIMARY, "variants": variants}
        document = json.loads(spec_text(self.work("here"), **{**bench, **spec}))
        cluster = document.pop("cluster")
        for group in groups:
            cluster["hosts"]["here"]["work_dir"] = str(self.work(group))
            chosen = cluster if clusters is None else clusters[group]
            (self.directory / f"{group}.yaml").write_text(json.dumps(chosen))
        self.spec.write_text(json.dumps({**document, "cluster": f"{groups[0]}.yaml"}))
        fleet: dict[str, Any] = {"groups": {g: {"cluster": f"{g}.yaml"} for g in groups}}
        if self.database is not None:
            fleet["database"] = self.database
        if store is not None:
            fleet["store"] = store
        self.file.write_text(json.dumps(fleet))

    @property
    def file(self) -> Path:
        return self.directory / "fleet.yaml"

    @property
    def spec(self) -> Path:
        return self.directory / "spec.yaml"

    def work(self, group: str) -> Path:
        return self.directory / "work" / group

    def fleet(self) -> Fleet:
        return load_fleet(self.file)

    # -- the command line

    def call(self, *words: str, code: int = 0) -> Result:
        """Run a short command in this process."""
        done = CliRunner().invoke(main, ["fleet", *words, "--fleet", str(self.file)])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == code, done.output
        return done

    def submit(self, group: str, *words: str) -> str:
        # One each: the fake build, which two runs may make at one moment, takes no lock as the real one does.
        cache, source = str(self.directory / "cache" / group), str(ROOT / "engine_src")
        places = ("--cache", cache, "--engine-src", source)
        return self.call("submit", str(self.spec), "-g", group, *places, *words).stdout.strip()

    def drive(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [*PERFRUNNER, "fleet", "workers", "--name", name, "--fleet", str(self.file), *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                cwd=self.directory, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        self.workers[name] = process
        return process

    def log(self, worker: str) -> Path:
        return self.directory / f"{worker}.log"

    def output_of(self, worker: str) -> str:
        return self.log(worker).read_text() if self.log(worker).exists() else ""

    def kill(self, worker: str) -> None:
        self.workers[worker].kill()
        self.workers[worker].wait(PATIENCE_S)

    def end(self, worker: str, signum: int = signal.SIGTERM) -> int:
        self.workers[worker].send_signal(signum)
        return self.workers[worker].wait(PATIENCE_S)

    def close(self) -> None:
        """End the workers that still run, with their runs."""
        for process in self.workers.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(PATIENCE_S)
        self.wait("its runs end", lambda: not list(processes_of(self.directory / "work")))

    # -- what became of it

    @contextmanager
    def queue(self) -> Iterator[DbosQueue]:
        queue = DbosQueue.open(self.fleet().database, create=False)
        try:
            yield queue
        finally:
            queue.close()

    def wait(self, what: str, condition: Callable[[], bool], timeout: float = PATIENCE_S) -> None:
        until = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > until:
                logs = "\n".join(self.output_of(name) for name in self.workers)
                raise AssertionError(f"not in {timeout:g} s: {what}\n{logs}")
            time.sleep(0.1)

    def wait_for(
        self, job: str, condition: Callable[[JobStatus], bool], what: str = ""
    ) -> JobStatus:
        """Return the status of a job as soon as it meets the condition."""
        matches: list[JobStatus] = []
        with self.queue() as queue:

            def look() -> bool:
                try:
                    status = queue.job(job)
                except StoreError:  # the database is away
                    return False
                assert status is not None, job
                matches[:] = [status]
                return condition(status)

            self.wait(what or f"{job}: {matches}", look)
        return matches[0]

    def wait_until(self, job: str, state: str) -> JobStatus:
        return self.wait_for(job, lambda status: status.state == state, f"{job} is {state}")

    def wait_until_it_measures(self, job: str, trials: int = 1) -> JobStatus:
        return self.wait_for(
            job, lambda s: (s.progress.finished or 0) >= trials, f"{job} has {trials} trials"
        )

    def statuses(self) -> list[JobStatus]:
        with self.queue() as queue:
            return list(queue.jobs())

    def results(self, group: str) -> list[ExperimentData]:
        fleet = self.fleet()
        with open_store(fleet.groups[group].out, fleet.store, create=False) as store:
            return [store.load(experiment.id) for experiment in store.own()]

    def events(self, group: str, experiment: str) -> list[str]:
        """Return how often a run was started, and how it ended each time."""
        journal = self.fleet().groups[group].out / experiment / "journal.jsonl"
        return [e["event"] for e in read_journal(journal) if e["event"] in BEGINNINGS + ENDS]

    def assert_complete(self, group: str, blocks: int, experiments: int = 1) -> None:
        """Assert that each trial is stored once, however often the run was interrupted."""
        matches = self.results(group)
        assert len(matches) == experiments
        for data in matches:
            assert data.experiment.state == "done"
            trials = Counter((t.block, t.variant) for t in data.trials if t.status == "ok")
            assert trials == {(b, v): 1 for b in range(1, blocks + 1) for v in ("base", "changed")}

    def assert_one_after_the_other(self, group: str) -> None:
        """Assert that no two runs of a group measured at the same time, by the times of the queue."""
        spans = sorted(
            (min(t.started_at for t in data.trials), max(t.finished_at for t in data.trials))
            for data in self.results(group)
        )
        for (_, ended), (began, _) in itertools.pairwise(spans):
            assert ended <= began, spans

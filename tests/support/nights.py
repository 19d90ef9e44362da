"""Played runs of nights, for tests of `perfrunner nightly`."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import yaml

from perfrunner.results import ExperimentRecord, ResultStore, TrialRecord

START = datetime(2026, 10, 1, 2, 0, tzinfo=timezone.utc)
OUT = "perfrunner-results"
ONCE = ("--no-verify",)
SPEC = {
    "name": "small",
    "baseline": "glibc",
    "variants": {
        "glibc": {"allocator": {"name": "system"}},
        "je": {"allocator": {"name": "jemalloc"}},
    },
    "workloads": {"pf": {"items": 10}},
    "buckets": ["persistent"],
    "primary": ["ops_per_s"],
}


def append(log, text):
    with log.open("a") as out:
        out.write(text)


class Nights:
    """Plays `perfrunner run`: a finished run a night, je faster by a gain; or a run that ends badly."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rng = np.random.default_rng(7)
        self.night = 0
        self.next: float | int = 0.0
        self.kernel = "6.1"
        self.flawed = False  # a run that ends, with 3: a variant could not be built
        self.calls: list[bool] = []
        self.compared: list[dict[str, object]] = []
        self.commits = (
            False  # whether the nights record the commit of each variant, a new one every night
        )
        self.cpu: float | None = None  # more total CPU of je; None: not measured
        self.truth = 0.0  # the change that a direct comparison finds
        self.workloads = ("pf",)
        self.broken: set[str] = set()  # workloads whose comparison fails

    def __call__(self, path, out, cache, log, *, resume):
        if path.parent.name == "verify":
            return self.compare(path)
        self.calls.append(resume)
        if self.flawed:
            self.store(self.next, "done")
            append(log, "$ perfrunner run\nfailed: build of third failed\n")
            return 3
        if isinstance(self.next, int):
            state = "interrupted" if self.next == 130 else "failed"
            self.store(None, state)
            append(
                log, f"$ perfrunner run\nbuild  glibc ...\nerror: no compiler, block {self.night}\n"
            )
            return self.next
        self.store(self.next, "done")
        append(log, "$ perfrunner run\n")
        return 0

    def compare(self, path):
        """Play the comparison of two commits."""
        document = yaml.safe_load(path.read_text())
        self.compared.append(document)
        (workload,) = document["workloads"]
        if workload in self.broken:
            return 3
        at = START + timedelta(days=self.night, hours=-1)
        name = f"{document['name']}-{self.night}"
        with ResultStore.open(self.directory / OUT) as opened:
            opened.create_experiment(
                ExperimentRecord(
                    name, document["name"], document, "", str(path), 1, at, "0", state="done"
                )
            )
            trials = []
            for block in range(1, document["blocks"] + 1):
                for position, variant in enumerate(document["variants"], 1):
                    rate = 1e6 * float(np.exp(self.rng.normal(0, 0.004)))
                    rate *= 1.0 if variant == document["baseline"] else 1 + self.truth
                    trials.append(TrialRecord(
                        block, 1, position, workload, "persistent", variant, variant, "ok", "", at, at,
                        {"ops_per_s": rate, **self.total_cpu(variant != document["baseline"])}, {}, "raw",
                    ))  # fmt: skip
            opened.add_trials(name, trials)
        return 0

    def total_cpu(self, more):
        """Return the metric of a trial whose server needs `cpu` more if `more`."""
        if self.cpu is None:
            return {}
        luck = float(np.exp(self.rng.normal(0, 0.004)))
        return {"total_cpu_us_per_op": 0.6 * luck * (1 + self.cpu * more)}

    def earlier(self, *gains):
        """Store the runs of nights that nobody looks at: a command for each takes a quarter of a second."""
        for gain in gains:
            self.store(gain, "done")

    def store(self, expected_gain, state):
        at = START + timedelta(days=self.night)
        name = f"small-{at:%Y%m%d}"
        self.night += 1
        with ResultStore.open(self.directory / OUT) as opened:
            facts = {"hosts": {"h": {"kernel": self.kernel}}}
            if self.commits:
                commit = f"{self.night:012x}"
                facts["sources"] = {"variants": {
                    v: {"name": v, "sha256": commit, "directory": "", "interface": 1, "revision": True,
                        "commit": commit}
                    for v in SPEC["variants"]
                }}  # fmt: skip
            opened.create_experiment(
                ExperimentRecord(
                    name,
                    "small",
                    {**SPEC, "workloads": {w: {"items": 10} for w in self.workloads}},
                    "",
                    "s.yaml",
                    1,
                    at,
                    "0",
                    state=state,
                    facts=facts,
                )
            )
            trials = []
            blocks = range(1, 7) if expected_gain is not None else ()
            for block, workload in itertools.product(blocks, self.workloads):
                for position, variant in enumerate(SPEC["variants"], 1):
                    rate = 1e6 * float(np.exp(self.rng.normal(0, 0.004)))
                    rate *= 1 + expected_gain if variant == "je" else 1
                    trials.append(TrialRecord(
                        block, 1, position, workload, "persistent", variant, f"b{expected_gain}", "ok", "", at, at,
                        {"ops_per_s": rate, **self.total_cpu(variant == "je")}, {}, "raw",
                    ))  # fmt: skip
            opened.add_trials(name, trials)
        page = self.directory / OUT / name / "report.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"<p>{name}</p>")

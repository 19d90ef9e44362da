"""What runs after the last block, beside the comparison: the sampling check, then the profiles.

Each is stored whole or not at all: a run that is killed meanwhile, or loses a host, does it again. How many trials
they are is known from the start, for the time left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from perfrunner.results import ResultStore
from perfrunner.results.profiles import FACT as PROFILES
from perfrunner.results.profiles import failed_profiles
from perfrunner.run import events as ev
from perfrunner.run.journal import Journal
from perfrunner.run.opening import Opened
from perfrunner.run.plan.ensembles import Layout
from perfrunner.run.tally import Tally
from perfrunner.run.trial.profiles import cells_to_profile, take_profiles
from perfrunner.run.trial.runner import TrialRunner
from perfrunner.run.trial.sampling_check import FACT as SAMPLING
from perfrunner.run.trial.sampling_check import cells_to_check, check_sampling
from perfrunner.run.trial.seats import Deployed
from perfrunner.spec.cell import CellName
from perfrunner.spec.model import Spec

CHECKED = 2  # trials of a cell in the sampling check: with samplers and without


def trials_afterwards(spec: Spec, facts: Mapping[str, Any], arms: int) -> list[CellName]:
    """(workload, bucket) of each trial that is still to run behind the blocks. `arms`: those that could be built."""
    checks = [] if SAMPLING in facts else cells_to_check(spec) * CHECKED
    profiles = [] if PROFILES in facts else cells_to_profile(spec) * arms
    return [*checks, *profiles]


@dataclass
class Afterwards:
    """Of one run. `facts` are the experiment's, as its run keeps them."""

    spec: Spec
    opened: Opened
    store: ResultStore
    journal: Journal
    listener: ev.Listener
    tally: Tally
    layouts: Mapping[str, Layout]
    facts: dict[str, Any]
    deployed: Mapping[str, Deployed]
    _left: list[CellName] = field(init=False)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        # Sampling is checked on the baseline.
        checked = self.facts if self._checks else {SAMPLING: None, **self.facts}
        self._left = trials_afterwards(self.spec, checked, len(self.deployed))
        self.tally.afterwards = self._left

    @property
    def _checks(self) -> bool:
        return self.spec.baseline in self.deployed

    def run(self, runner: TrialRunner, *, held: Callable[[], None]) -> None:
        """All of it that has not been done. `held` raises LinkLost where a host went: its trial says nothing then."""
        self._begin()
        if self._checks and SAMPLING not in self.facts:
            self._check_sampling(runner, held)
        if PROFILES not in self.facts:
            self._take_profiles(runner, held)

    def _check_sampling(self, runner: TrialRunner, held: Callable[[], None]) -> None:
        cells = cells_to_check(self.spec)
        if not cells:
            return
        self.listener.on_event(ev.SamplingCheck(self.spec.baseline, tuple(cells)))
        self.tally.tell_progress()
        records = []
        baseline = self.deployed[self.spec.baseline]
        for record in check_sampling(runner, self.spec, baseline, self.layouts):
            held()
            records.append(record)
            self._done(record, CHECKED)
        self.facts[SAMPLING] = records
        self.store.set_facts(self.opened.experiment.id, self.facts)
        self.journal.append("sampling-checked")

    def _take_profiles(self, runner: TrialRunner, held: Callable[[], None]) -> None:
        cells = cells_to_profile(self.spec)
        if not cells:
            return
        self.listener.on_event(ev.Profiling(tuple(self.spec.variants), tuple(cells)))
        self.tally.tell_progress()
        store = self.opened.directory.parent
        records = []
        for record in take_profiles(runner, self.spec, self.deployed, self.layouts, store):
            held()
            records.append(record)
            self._done(record, 1)
        for text in failed_profiles(records):
            self.listener.on_event(ev.Warned(text))
        for record in records:
            self.tally.keep_raw(store / record["directory"])
        self.facts[PROFILES] = records
        self.store.set_facts(self.opened.experiment.id, self.facts)
        self.journal.append("profiled")

    def _done(self, record: Mapping[str, Any], trials: int) -> None:
        cell = (record["workload"], record["bucket"])
        for _ in range(min(trials, self._left.count(cell))):  # groups hold the baseline twice
            self._left.remove(cell)
        self.tally.tell_progress()

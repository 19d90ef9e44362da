"""The time left and what is told meanwhile, of runs whose trials take simulated time. No engine, no waiting."""

from __future__ import annotations

import json
import random
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from perfrunner.results import ResultStore
from perfrunner.run import events as ev
from perfrunner.run.afterwards import Afterwards, trials_afterwards
from perfrunner.run.interrupt import SignalGuard
from perfrunner.run.journal import Journal
from perfrunner.run.opening import begin
from perfrunner.run.plan.ensembles import layouts
from perfrunner.run.plan.order import plan_block
from perfrunner.run.plan.schedule import Schedule
from perfrunner.run.precise import PreciseCells
from perfrunner.run.provisional import SoFar
from perfrunner.run.tally import Tally
from perfrunner.run.trial.seats import Deployed, TrialResult
from perfrunner.spec import Spec
from tests.support.fakes import PILLOWFIGHT, spec_text, variant

START = datetime(2026, 11, 20, tzinfo=timezone.utc)
ARMS = ("base", *"abc")
FIXED, ARM = (
    {"pf": 2.0, "ap": 5.0},
    {"pf": 9.0, "ap": 22.0},
)  # seconds of an ensemble, and of an arm in it
LINK, RATE, EFFECT = 1.5, 1e6, 1.01


class Simulated:
    """A run of the real plan, tally, precision rule and afterwards over a clock that only trials move."""

    def __init__(self, directory: Path, *, spread=0.002, blocks=12, void=None, **changes):
        document = json.loads(
            spec_text(
                directory / "work",
                variants={name: {"name": name, **variant()} for name in ARMS},
                workloads={"pf": {**PILLOWFIGHT, "profile": "perf"}, "ap": {"type": "append", "items": 100}},
                blocks=blocks,
                sampling_check=True,
                **changes,
            )
        )  # fmt: skip
        self.spec = Spec.model_validate(document)
        self.rng, self.now, self.void = random.Random(3), 0.0, void
        self.spread = spread
        self.told: list[tuple[float, ev.Event]] = []
        self.directory = directory

    def on_event(self, event):
        self.told.append((self.now, event))

    def run(self, tasks, deployed, **_):
        """As a TrialRunner does: all of an ensemble at once."""
        workload = tasks[0].workload
        self.now += FIXED[workload] + ARM[workload] * len(tasks) * self.rng.gauss(1, 0.05)
        common = self.rng.gauss(0, 0.1)
        spoiled = (tasks[0].block, tasks[0].attempt) == (self.void, 1)
        return [
            TrialResult(
                task, "void" if spoiled else "ok", "3 misses" if spoiled else "", START,
                START + timedelta(seconds=1e6),  # the clock counts, not this
                self.directory / "store" / "t" / str(self.now), {"ops_per_s": self._rate(task, common)},
            )
            for task in tasks
        ]  # fmt: skip

    def _rate(self, task, common):
        faster = 1.0 if task.variant == "base" else EFFECT
        return RATE * faster * (1 + common) * (1 + self.rng.gauss(0, self.spread))

    def whole(self):
        out = self.directory / "store"
        with ResultStore.open(out) as store, SignalGuard() as guard:
            opened = begin(store, out, self.spec, text="", path=Path("s.yaml"), seed=5)
            laid_out = layouts(self.spec, None)

            def planned(block, attempt=1):
                return plan_block(self.spec, 5, block, attempt, laid_out=laid_out)

            def redo(cell, attempt):
                return [
                    (t.variant, t.ensemble)
                    for t in planned(cell.block, attempt)
                    if (t.workload, t.bucket) == (cell.workload, cell.bucket)
                ]

            blocks = self.spec.blocks
            schedule = Schedule(
                (t for block in range(1, blocks + 1) for t in planned(block)), max_voids=10, redo_order=redo
            )  # fmt: skip
            journal = Journal(opened.directory / "journal.jsonl")
            tally = Tally(self.spec, opened, store, journal, guard, self, schedule)
            tally.clock = lambda: self.now
            deployed = {name: Deployed(name, {}, {}, {}) for name in ARMS}
            afterwards = Afterwards(
                self.spec, opened, store, journal, self, tally, laid_out, {}, deployed
            )
            precise = PreciseCells(self.spec, opened, store, journal, self, tally, planned)
            precise.recall()
            tally.start_clock()
            linked = 0
            while (unit := schedule.next()) is not None:
                tally.start(unit)
                if unit.tasks[0].block != linked:
                    linked = unit.tasks[0].block
                    self.now += LINK * len(ARMS)
                tally.keep(self.run(unit.tasks, deployed), deployed)
                blocks = precise.look(unit.tasks[0].block, blocks)
            afterwards.run(self, held=lambda: None)
            journal.close()
        return self

    def of(self, kind):
        return [(at, event) for at, event in self.told if isinstance(event, kind)]

    def left_after_block(self, block):
        """(told, true) seconds when the last trial of the block was kept."""
        ends = [at for at, event in self.of(ev.TrialFinished) if event.block == block]
        told = [event.seconds_left for at, event in self.of(ev.Eta) if at == ends[-1]]
        return told[-1], self.now - ends[-1]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"blocks": 6},
        {"void": 2},
        {"precision": "1%"},  # of 12 planned blocks 10 are enough
        {"precision": "1%", "blocks": 6},  # 10 it takes all the same
        {"schedule": "sequential"},
    ],
    ids=str,
)
def test_the_time_left_is_right_within_a_fifth_after_two_blocks(tmp_path, changes):
    run = Simulated(tmp_path, **changes).whole()
    told, true = run.left_after_block(2)
    assert told == pytest.approx(true, rel=0.2)
    assert run.of(ev.Profiling)
    assert run.of(ev.SamplingCheck)


def test_what_follows_the_blocks_is_counted_until_it_is_done(tmp_path):
    run = Simulated(tmp_path, blocks=6).whole()
    (begun, _), *_ = run.of(ev.SamplingCheck)
    told = [event.seconds_left for at, event in run.of(ev.Eta) if at >= begun]
    assert told[0] == pytest.approx(run.now - begun, rel=0.35)
    assert told == sorted(told, reverse=True)
    assert told[-1] == 0
    assert trials_afterwards(run.spec, {}, len(ARMS)).count(("pf", "persistent")) == 2 + len(ARMS)


def test_estimates_are_told_with_each_whole_block_and_grow_narrower(tmp_path):
    run = Simulated(tmp_path, blocks=8, void=3).whole()
    told = [event for _, event in run.of(ev.Provisional) if event.cell == ("pf", "persistent")]
    assert [event.estimates[0].blocks for event in told] == list(range(2, 9))
    assert {event.metric for event in told} == {"ops_per_s"}
    for event in told:
        assert [estimate.variant for estimate in event.estimates] == [*"abc"]
    last = told[-1].estimates[0]
    low, high = last.ci95
    assert low < EFFECT < high
    assert high - low < 0.01


def test_a_block_that_is_void_is_in_no_estimate(tmp_path):
    """The third block is redone at the end, and only then counts."""
    run = Simulated(tmp_path, blocks=6, void=3).whole()
    third = [
        at for at, event in run.of(ev.TrialFinished) if event.block == 3 and event.attempt == 1
    ]
    assert all(at not in third for at, _ in run.of(ev.Provisional))


def test_estimates_are_cheap_at_a_hundred_blocks():
    """Not worked out over everything at each trial: the hundredth block costs about what the tenth does."""
    document = json.loads(
        spec_text(
            Path("/var/tmp/lab"),
            variants={f"v{n}": {"name": f"v{n}", **variant()} for n in range(12)},
            baseline="v0",
        )
    )
    spec = Spec.model_validate(document)
    planned = [
        plan_block(spec, 1, block, 1, laid_out=layouts(spec, None)) for block in range(1, 101)
    ]
    schedule = Schedule(
        (t for block in planned for t in block), max_voids=0, redo_order=lambda *_: []
    )
    so_far = SoFar(spec)
    costs, rng = [], random.Random(1)
    while (unit := schedule.next()) is not None:
        began = time.process_time()
        for task in unit.tasks:
            schedule.record(task, "ok")
            so_far.add(
                task,
                TrialResult(task, "ok", "", START, START, Path(), {"ops_per_s": rng.uniform(1, 2)}),
            )
        found = so_far.whole(unit.tasks[0].cell)
        costs.append(time.process_time() - began)
    assert found is not None
    assert [estimate.blocks for estimate in found.estimates] == [100] * 11
    # About 1 ms a block of twelve arms, twice that on a busy machine; all hundred took 0.3 s.
    assert sum(costs[-20:]) / 20 < 0.1

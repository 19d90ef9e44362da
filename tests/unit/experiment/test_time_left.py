"""The time left and what is reported during that, of runs whose trials take simulated time. No engine, no waiting."""

from __future__ import annotations

import json
import random
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfrunner.experiment import events as ev
from perfrunner.experiment import recorder as recorder_module
from perfrunner.experiment.interrupt import SignalGuard
from perfrunner.experiment.outdir import Journal
from perfrunner.experiment.plan import make_plan
from perfrunner.experiment.recorder import InterimEstimates, Recorder
from perfrunner.experiment.sampling_check import run_sampling_check, sampling_trials
from perfrunner.experiment.schedule import Schedule
from perfrunner.experiment.session import RunContext, begin
from perfrunner.experiment.stopping import StoppingRule
from perfrunner.experiment.trial.placement import Deployed, TrialResult
from perfrunner.experiment.units import run_units
from perfrunner.results import ResultStore
from perfrunner.spec.model import Spec
from tests.support.fakes import PILLOWFIGHT, spec_text, variant

START = datetime(2026, 11, 20, tzinfo=timezone.utc)
VARIANTS = ("base", *"abc")
# Seconds of a group, and of a variant in it.
FIXED, VARIANT = {"pf": 2.0, "ap": 5.0}, {"pf": 9.0, "ap": 22.0}
LINK, RATE, EFFECT = 1.5, 1e6, 1.01


class Simulated:
    """A run of the real plan, recorder, precision rule and sampling check over a clock that only trials move."""

    def __init__(self, directory: Path, *, spread=0.002, blocks=12, discarded=None, **changes):
        document = json.loads(
            spec_text(
                directory / "work",
                variants={name: {"name": name, **variant()} for name in VARIANTS},
                workloads={"pf": PILLOWFIGHT, "ap": {"type": "append", "items": 100}},
                blocks=blocks,
                sampling_check=True,
                **changes,
            )
        )  # fmt: skip
        self.spec = Spec.model_validate(document)
        self.rng, self.now, self.discarded = random.Random(3), 0.0, discarded
        self.spread = spread
        self.messages: list[tuple[float, ev.Event]] = []
        self.directory = directory

    def on_event(self, event):
        self.messages.append((self.now, event))

    def run(self, tasks, deployed, **_):
        """As a TrialRunner does: all of a group at once."""
        workload = tasks[0].workload
        self.now += FIXED[workload] + VARIANT[workload] * len(tasks) * self.rng.gauss(1, 0.05)
        common = self.rng.gauss(0, 0.1)
        spoiled = (tasks[0].block, tasks[0].attempt) == (self.discarded, 1)
        return [
            TrialResult(
                task, "discarded" if spoiled else "ok", "3 misses" if spoiled else "", START,
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
            session = begin(store, out, self.spec, text="", path=Path("s.yaml"), seed=5)
            plan = make_plan(self.spec, 5)
            schedule = Schedule(plan.trials, max_discarded=10, redo_order=plan.redo_order)
            journal = Journal(session.directory / "journal.jsonl")
            context = RunContext(self.spec, session, store, journal, guard, self)
            recorder = Recorder(context, schedule)
            recorder.clock = lambda: self.now
            recorder.post_run = sampling_trials(self.spec, {})
            deployed = {name: Deployed(name, {}, {}, {}) for name in VARIANTS}
            stopping = StoppingRule(context, recorder, plan.block)
            linked = [None]

            def run(unit):
                first = unit.tasks[0]
                if linked[-1] != (first.block, first.attempt):  # a new link order
                    linked.append((first.block, first.attempt))
                    self.now += LINK * len(VARIANTS)
                return self.run(unit.tasks, deployed)

            units = SimpleNamespace(
                run=run,
                held=SimpleNamespace(hold=lambda: None),
                relinks=SimpleNamespace(deployed=deployed),
            )
            assert run_units(recorder, stopping, self.spec.blocks, units)
            run_sampling_check(recorder, plan, {}, deployed, self, lambda: None)
            journal.close()
        return self

    def of(self, kind):
        return [(at, event) for at, event in self.messages if isinstance(event, kind)]

    def left_after_block(self, block):
        """(reported, true) seconds when the last trial of the block was kept."""
        ends = [at for at, event in self.of(ev.TrialFinished) if event.block == block]
        messages = [event.seconds_left for at, event in self.of(ev.Eta) if at == ends[-1]]
        return messages[-1], self.now - ends[-1]


def test_a_discarded_group_is_one_redo(tmp_path):
    """All its variants are discarded in one trial each, and the limit is on cases."""
    run = Simulated(tmp_path, discarded=2).whole()
    discarded = [event for _, event in run.of(ev.BlockDiscarded)]
    assert {event.workload for event in discarded} == {"pf", "ap"}
    assert [(event.redos, event.redo) for event in discarded] == [(1, True), (2, True)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"blocks": 6},
        {"discarded": 2},
        {"precision": "1%"},  # of 12 planned blocks 10 are enough
        {"precision": "1%", "blocks": 6},  # 10 it takes all the same
        {"schedule": "sequential"},
    ],
    ids=str,
)
def test_the_time_left_is_right_within_a_fifth_after_two_blocks(tmp_path, changes):
    run = Simulated(tmp_path, **changes).whole()
    messages, true = run.left_after_block(2)
    assert messages == pytest.approx(true, rel=0.2)
    assert run.of(ev.SamplingCheck)


def test_what_follows_the_blocks_is_counted_until_it_is_done(tmp_path):
    run = Simulated(tmp_path, blocks=6).whole()
    (begun, _), *_ = run.of(ev.SamplingCheck)
    messages = [event.seconds_left for at, event in run.of(ev.Eta) if at >= begun]
    assert messages[0] == pytest.approx(run.now - begun, rel=0.35)
    assert messages == sorted(messages, reverse=True)
    assert messages[-1] == 0
    assert sampling_trials(run.spec, {}).count(("pf", "persistent")) == 2
    assert sampling_trials(run.spec, {"sampling_check": []}) == []


def test_estimates_are_reported_with_each_whole_block_and_grow_narrower(tmp_path):
    run = Simulated(tmp_path, blocks=8, discarded=3).whole()
    messages = [event for _, event in run.of(ev.Provisional) if event.case == ("pf", "persistent")]
    assert [event.estimates[0].blocks for event in messages] == [6, 7, 8]
    assert {event.metric for event in messages} == {"ops_per_s"}
    for event in messages:
        assert [estimate.variant for estimate in event.estimates] == [*"abc"]
    last = messages[-1].estimates[0]
    low, high = last.ci95
    assert low < EFFECT < high
    widths = [high - low for event in messages for low, high in [event.estimates[0].ci95]]
    assert widths == sorted(widths, reverse=True)


def test_a_block_that_is_discarded_is_in_no_estimate(tmp_path):
    """The third block is redone at the end, and only then counts."""
    run = Simulated(tmp_path, blocks=6, discarded=3).whole()
    third = [
        at for at, event in run.of(ev.TrialFinished) if event.block == 3 and event.attempt == 1
    ]
    assert all(at not in third for at, _ in run.of(ev.Provisional))


@pytest.mark.long
def test_an_estimate_costs_at_the_hundredth_block_what_it_costs_at_the_tenth():
    """It is not worked out over everything at each trial."""
    document = json.loads(
        spec_text(
            Path("/var/tmp/lab"),
            variants={f"v{n}": {"name": f"v{n}", **variant()} for n in range(12)},
            baseline="v0",
        )
    )
    spec = Spec.model_validate(document)
    plan = make_plan(spec, 1)
    schedule = Schedule(plan.first(100), max_discarded=0, redo_order=plan.redo_order)
    interim = InterimEstimates(spec)
    costs, rng = [], random.Random(1)
    while (unit := schedule.next()) is not None:
        began = time.process_time()
        for task in unit.tasks:
            schedule.record(task, "ok")
            interim.add(
                task,
                TrialResult(task, "ok", "", START, START, Path(), {"ops_per_s": rng.uniform(1, 2)}),
            )
        matches = interim.complete(unit.tasks[0].block_case)
        costs.append(time.process_time() - began)
    assert matches is not None
    assert [estimate.blocks for estimate in matches.estimates] == [100] * 11
    assert min(costs[-20:]) < 4 * min(costs[5:25])


def test_raw_files_are_synced_before_the_trials_that_name_them_are_stored(tmp_path, monkeypatch):
    done, add, sync = [], ResultStore.add_trials, recorder_module.sync_files

    def added(store, experiment, records):
        done.append("stored")
        add(store, experiment, records)

    def synced(directory):
        done.append("synced")
        sync(directory)

    monkeypatch.setattr(ResultStore, "add_trials", added)
    monkeypatch.setattr(recorder_module, "sync_files", synced)
    Simulated(tmp_path, schedule="sequential").whole()
    assert done == ["synced", "stored"] * (len(done) // 2)
    assert done

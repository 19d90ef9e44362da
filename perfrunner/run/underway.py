"""A run under way: hosts, builds, proofs, units of trials one after the other, and its three ends.

    open the hosts -> build -> deploy, prove -> trials -> sampling check, profiles -> done, interrupted or failed

A link that is lost costs what was in flight; the run waits for the hosts and goes on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

import perfrunner
from perfrunner.build.place import Builder, open_builder
from perfrunner.cluster import LinkLost
from perfrunner.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    HostError,
    PerfrunnerError,
)
from perfrunner.results import BuildRecord, ExperimentState, ResultStore
from perfrunner.results.profiles import FACT as PROFILES
from perfrunner.run import events as ev
from perfrunner.run.afterwards import Afterwards, trials_afterwards
from perfrunner.run.failfast import IN_A_ROW, FailingInARow
from perfrunner.run.interrupt import Interrupted, InterruptedTwice, SignalGuard
from perfrunner.run.journal import Journal, read_journal, trial_in_flight
from perfrunner.run.opening import Opened, planned_blocks
from perfrunner.run.plan.ensembles import FACT as LAYOUTS
from perfrunner.run.plan.ensembles import (
    Layout,
    layouts,
    least_free,
    record_layouts,
    stored_layouts,
)
from perfrunner.run.plan.order import PlannedTrial, plan_block
from perfrunner.run.plan.schedule import Arm, BlockCell, Schedule, Unit
from perfrunner.run.precise import PreciseCells
from perfrunner.run.preflight.builds import Builds, build_all, deploy_and_prove
from perfrunner.run.preflight.cpus import require_cpus
from perfrunner.run.preflight.describe import HostFacts, describe, note_changes, note_tools
from perfrunner.run.preflight.hosts import RunHosts, open_hosts
from perfrunner.run.preflight.noise_floor import FACT as NOISE_FLOOR
from perfrunner.run.preflight.noise_floor import known_noise_floor
from perfrunner.run.preflight.ports import require_ports
from perfrunner.run.preflight.sdk import require_sdk_there
from perfrunner.run.tally import Tally
from perfrunner.run.trial.absent import cut_off, not_run
from perfrunner.run.trial.profiles import check_profiling
from perfrunner.run.trial.relinks import Relinks
from perfrunner.run.trial.runner import TrialRunner
from perfrunner.run.trial.seats import Deployed, TrialResult
from perfrunner.source import Sources
from perfrunner.spec.model import Spec

STOP_GRACE_S = 5.0
REGAIN_PATIENCE_S = 600.0  # a host that restarts is back by then
LINKED_TRIES = 3
LOCK_LOST = "this run's lock on a host was lost with the connection"
Done = TypeVar("Done")
LEFT_OUT = "left out of the ensemble: it failed more than once and never succeeded"


@dataclass
class RunUnderWay:
    """An experiment that was opened, until it ends. Lives for one call of run_experiment."""

    spec: Spec
    opened: Opened
    store: ResultStore
    journal: Journal
    guard: SignalGuard
    listener: ev.Listener
    sources: Sources
    cache_dir: Path
    resume_command: str
    layouts: dict[str, Layout] = field(init=False)
    tally: Tally = field(init=False)
    blocks: int = field(init=False)
    facts: dict[str, Any] = field(init=False, default_factory=dict)
    reference: HostFacts = field(init=False, default_factory=dict)  # what must hold still
    failing: FailingInARow = field(init=False)
    not_usable: set[str] = field(init=False, default_factory=set)
    stopped: str = field(init=False, default="")
    quieten: bool = field(init=False, default=False)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.failing = FailingInARow(len(self.spec.variants))
        self.blocks = planned_blocks(self.opened, self.spec)
        # How much memory the engine node has is known later; a resumed run goes on as it began.
        self.layouts = stored_layouts(self.opened.experiment.facts) or layouts(self.spec, None)
        self.tally = Tally(
            self.spec,
            self.opened,
            self.store,
            self.journal,
            self.guard,
            self.listener,
            self._schedule(),
        )
        self.tally.afterwards = trials_afterwards(
            self.spec, self.opened.experiment.facts, len(self.spec.variants)
        )
        self.tally.recall()

    @property
    def schedule(self) -> Schedule:
        return self.tally.schedule

    def _schedule(self) -> Schedule:
        return Schedule(
            (t for block in range(1, self.blocks + 1) for t in self._plan_block(block)),
            max_voids=self.spec.limits.max_voids,
            redo_order=self._redo_order,
        )

    def _plan_block(self, block: int, attempt: int = 1) -> tuple[PlannedTrial, ...]:
        seed = self.opened.experiment.seed
        return plan_block(self.spec, seed, block, attempt, laid_out=self.layouts)

    # -- the flow

    def execute(self) -> ev.RunOutcome:
        self._announce()
        try:
            with (
                open_builder(
                    self.spec.cluster, self.cache_dir, self.opened.experiment.id
                ) as opened,
                open_hosts(
                    self.spec.cluster,
                    self.opened.experiment.id,
                    self.listener,
                    quieten=self.quieten,
                    engine_cpus=self.spec.engine.cpus,
                    built_for=opened.platform,
                ) as hosts,
            ):
                try:
                    require_cpus(self.spec, hosts.facts)
                    require_ports(self.spec, hosts.hosts)
                    require_sdk_there(self.spec, hosts.hosts)
                    if PROFILES not in self.opened.experiment.facts:
                        check_profiling(self.spec, hosts.engine_nodes)
                    builder = opened.beside(hosts.hosts)
                    self._describe(hosts)
                    builds = build_all(
                        self.spec,
                        self.sources,
                        builder,
                        self.listener,
                        least=min(2, len(self.spec.variants)),  # one alone compares with nothing
                    )
                    self._note_builds(builds)
                    deployed = self._deploy_linked(hosts, builds)
                    self._measure(hosts, builds, deployed, builder)
                except BaseException:
                    self._stop_everything(hosts)
                    raise
        except Interrupted as stop:
            return self._interrupted(stop)
        except BaseException as error:
            self._failed(error)
            raise
        return self._finished()

    def _announce(self) -> None:
        experiment = self.opened.experiment
        self.store.set_state(experiment.id, "running")
        if self.opened.resumed:
            lost = trial_in_flight(list(read_journal(self.journal.path)))
            self.journal.append("resumed", stored=len(self.opened.trials), repeated=lost)
        else:
            self.journal.append("begun", seed=experiment.seed, tool=perfrunner.__version__)
        self.listener.on_event(
            ev.PlanReady(
                experiment_id=experiment.id,
                name=experiment.name,
                directory=self.opened.directory,
                variants=tuple(self.spec.variants),
                cells=self.spec.cells,
                blocks=self.blocks,
                trials_total=self.tally.total,
                trials_done=self.tally.done,
                seed=experiment.seed,
                resumed=self.opened.resumed,
            )
        )
        self.tally.tell_progress()

    def _describe(self, hosts: RunHosts) -> None:
        """Record what the hosts are; cells that were left half done on hosts that changed begin again."""
        found = describe(self.spec, self.opened.experiment.facts, hosts.facts)
        for warning in found.warnings:
            self.listener.on_event(warning)
        if found.changes:
            for cell in self.schedule.begin_partial_cells_again():
                self.journal.append("cell-again", cell=cell, why=found.changes)
        self.facts = found.facts
        if LAYOUTS not in self.facts:
            self._fit_into_memory(hosts)
        self.facts[LAYOUTS] = record_layouts(self.layouts)
        self.facts[NOISE_FLOOR] = known_noise_floor(self.store, self.spec, hosts.facts)
        self.store.set_facts(self.opened.experiment.id, self.facts)
        self.journal.append("hosts", facts=hosts.facts)

    def _fit_into_memory(self, hosts: RunHosts) -> None:
        """Only before the first trial: the arms of one experiment are grouped alike in all its blocks."""
        nodes = [hosts.facts[name] for name in self.spec.cluster.engine_nodes]
        fitting = layouts(self.spec, least_free(nodes))
        if fitting != self.layouts and not self.opened.trials:
            for name, layout in fitting.items():
                if layout != self.layouts[name]:
                    how = (
                        f"{layout.arms} arms at a time" if layout.arms > 1 else "one arm at a time"
                    )
                    self.listener.on_event(ev.Warned(f"{name} runs {how}: {layout.why}"))
            self.layouts = fitting
            self.tally.schedule = self._schedule()

    def _note_builds(self, builds: Builds) -> None:
        for name, artifact in builds.artifacts.items():
            self.journal.append(
                "built", variant=name, build=artifact.build_id, cached=artifact.cached
            )
        if builds.tools is not None:
            self.journal.append("built-tools", build=builds.tools.build_id)
        tools = builds.tools or builds.artifacts[self.spec.baseline]
        if changed := note_tools(self.facts, tools.build_id):
            self.listener.on_event(ev.Warned(changed))
        self.store.set_facts(self.opened.experiment.id, self.facts)
        self._give_up("build-failed", builds.failures)

    def _give_up(self, event: str, arms: Mapping[str, str]) -> None:
        """Arms that cannot be measured, and why: what of them fails makes nothing be redone."""
        for name, message in arms.items():
            self.journal.append(event, variant=name, message=message)
            self.schedule.exclude(name)
            self.not_usable.add(name)

    def _deploy_linked(self, hosts: RunHosts, builds: Builds) -> dict[str, Deployed]:
        """A link that was lost while we built, deployed or proved costs the proofs, not the run: all are made anew."""
        self.reference = hosts.facts
        if not hosts.locked:
            self._regain(hosts, LOCK_LOST)
        deployed = self._until_held(
            hosts,
            "the proofs were",
            lambda: deploy_and_prove(self.spec, builds, hosts, self.listener, self._store_build),
        )
        self._give_up("proof-failed", builds.unproved)
        return deployed

    def _until_held(self, hosts: RunHosts, what: str, work: Callable[[], Done]) -> Done:
        """Work that no unit is: a link that is lost meanwhile costs all of it, and it is done anew."""
        for _ in range(LINKED_TRIES):
            try:
                done = work()
                _check_held(hosts)
                return done
            except LinkLost as lost:
                reason = str(lost)
            self._regain(hosts, reason)
        raise HostError(f"{what} cut off {LINKED_TRIES} times: {reason}", "is the network steady?")

    def _measure(
        self,
        hosts: RunHosts,
        builds: Builds,
        deployed: dict[str, Deployed],
        builder: Builder,
    ) -> None:
        runner = TrialRunner(
            spec=self.spec,
            run_id=self.opened.experiment.id,
            seed=self.opened.experiment.seed,
            engine_nodes=hosts.engine_nodes,
            load_clients=hosts.load_clients,
            trials_dir=self.opened.directory / "trials",
            shield=self.guard.shield,
            on_phase=lambda phase, s: self.listener.on_event(ev.TrialPhase(phase, s)),
            host_changes=lambda: hosts.changes(self.reference),
            hurry=lambda: self.guard.hurry,
        )
        relinks = Relinks(
            self.spec,
            self.opened.experiment.seed,
            builds.artifacts,
            deployed,
            list(hosts.seats.values()),
            builder,
            lambda line: self.listener.on_event(ev.Warned(line)),
        )
        afterwards = Afterwards(
            self.spec,
            self.opened,
            self.store,
            self.journal,
            self.listener,
            self.tally,
            self.layouts,
            self.facts,
            deployed,
        )
        block = 0
        precise = PreciseCells(
            self.spec,
            self.opened,
            self.store,
            self.journal,
            self.listener,
            self.tally,
            self._plan_block,
        )
        precise.recall()
        newest = max((t.block for t in self.opened.trials), default=0)
        self.blocks = precise.look(newest, self.blocks)
        self.tally.start_clock()
        while (unit := self.schedule.next()) is not None:
            task = unit.tasks[0]
            if task.attempt == 1 and task.block != block:
                block = task.block
                self.listener.on_event(ev.BlockStarted(block, self.blocks))
            if not hosts.locked:
                self._regain(hosts, LOCK_LOST)
            self.tally.start(unit)
            results = self._run_linked(unit, runner, builds, hosts, relinks)
            self.tally.keep(results, deployed)
            if self._hopeless([result for result in results if result.task in unit.tasks]):
                return
            self.blocks = precise.look(task.block, self.blocks)
        if not hosts.locked:
            self._regain(hosts, LOCK_LOST)
        self._until_held(
            hosts,
            "what follows the last block was",
            lambda: afterwards.run(runner, held=lambda: _check_held(hosts)),
        )

    def _hopeless(self, results: Sequence[TrialResult]) -> bool:
        """Whether to stop here, and why: told like a failure."""
        cause = self.failing.add([r for r in results if r.task.variant not in self.not_usable])
        if cause is not None:
            self.stopped = f"stopped: {IN_A_ROW} trials in a row failed of one cause: {cause}"
        elif self.schedule.past_budget:
            self.stopped = (
                f"stopped: more than max_voids = {self.spec.limits.max_voids} cells are void"
            )
            for void in [result for result in results if result.status == "void"][:1]:
                self.stopped += f"; the last one: {void.task.variant}: {void.reason}"
        else:
            return False
        self.tally.fail(self.stopped)
        self.journal.append("stopped", why=self.stopped)
        return True

    def _run_linked(
        self, unit: Unit, runner: TrialRunner, builds: Builds, hosts: RunHosts, relinks: Relinks
    ) -> list[TrialResult]:
        """A lost link costs the unit, not the run: it is void, and the run goes on when the hosts are back."""
        started = datetime.now(timezone.utc)
        try:
            arms = relinks.of_block(unit.tasks[0].block, unit.tasks[0].attempt)
            results = self._run_unit(unit, runner, builds, arms)
            _check_held(hosts)
            return results
        except LinkLost as lost:
            reason = str(lost)
        self._regain(hosts, reason)
        return [cut_off(task, reason, started, runner.trials_dir) for task in unit.tasks]

    def _regain(self, hosts: RunHosts, why: str) -> None:
        """HostError when a host stays away. One that comes back as another (it restarted) is noted."""
        self.listener.on_event(ev.Warned(f"{why}; waiting for the hosts"))
        self.journal.append("link-lost", why=why)
        hosts.regain(REGAIN_PATIENCE_S)
        if changes := hosts.changes_told(self.reference):
            note_changes(self.facts, hosts.facts, changes)
            self.store.set_facts(self.opened.experiment.id, self.facts)
            for cell in self.schedule.begin_partial_cells_again():
                self.journal.append("cell-again", cell=cell, why=changes)
        self.reference = hosts.facts
        self.tally.start_clock()  # the wait says nothing about the trials to come
        self.journal.append("link-regained", changes=changes)

    def _run_unit(
        self, unit: Unit, runner: TrialRunner, builds: Builds, deployed: Mapping[str, Deployed]
    ) -> list[TrialResult]:
        """Arms that could not be built or proved, or that an ensemble must do without, fail; the others run."""
        runs = [task for task in unit.tasks if task.variant in deployed]
        results = runner.run(runs, deployed) if runs else []
        for task in (*unit.tasks, *unit.left_out):
            if task in runs:
                continue
            message = builds.failures.get(task.variant)
            reason = LEFT_OUT if message is None else f"the build failed: {message}"
            if task.variant in builds.unproved:
                reason = f"not proved: {builds.unproved[task.variant]}"
            results.append(not_run(task, reason, message, runner.trials_dir))
        return results

    def _redo_order(self, cell: BlockCell, attempt: int) -> list[Arm]:
        order = self._plan_block(cell.block, attempt)
        return [
            (t.variant, t.ensemble)
            for t in order
            if (t.workload, t.bucket) == (cell.workload, cell.bucket)
        ]

    def _store_build(self, record: BuildRecord) -> None:
        with self.guard.shield():
            self.store.add_build(self.opened.experiment.id, record)

    # -- the three ends

    def _finished(self) -> ev.RunOutcome:
        for cell in self.schedule.incomplete_cells():
            self.tally.fail(
                f"block {cell.block}, {cell.workload} · {cell.bucket} does not count and was not redone"
            )
        code = EXIT_FAILED if self.tally.failures else EXIT_OK
        return self._end("failed" if self.stopped else "done", code)

    def _interrupted(self, stop: Interrupted) -> ev.RunOutcome:
        outcome = self._end("interrupted", EXIT_INTERRUPTED)
        self.listener.on_event(ev.Interrupted(stop.signal_name, self.resume_command))
        return outcome

    def _end(self, state: ExperimentState, code: int) -> ev.RunOutcome:
        experiment = self.opened.experiment
        self.store.set_state(experiment.id, state)
        self.journal.append("interrupted" if state == "interrupted" else "finished", exit=code)
        self.listener.on_event(
            ev.RunFinished(
                experiment_id=experiment.id,
                exit_code=code,
                ok=self.tally.counts["ok"],
                void=self.tally.counts["void"],
                failed=self.tally.counts["failed"],
                seconds=time.monotonic() - self.started,
            )
        )
        return ev.RunOutcome(experiment.id, code, self.opened.directory, self.tally.failures)

    def _failed(self, error: BaseException) -> None:
        """Note why; the error itself goes on to the caller. A full disk may refuse even that."""
        if isinstance(error, HostError):
            self.listener.on_event(
                ev.Warned("what was measured is kept", f"go on with: {self.resume_command}")
            )
        with contextlib.suppress(PerfrunnerError, OSError):
            self.store.set_state(self.opened.experiment.id, "failed")
        with contextlib.suppress(OSError):
            host = isinstance(error, HostError)
            code = error.exit_code if isinstance(error, PerfrunnerError) else EXIT_FAILED
            self.journal.append("failed", error=str(error), host=host, exit=code)

    def _stop_everything(self, hosts: RunHosts) -> None:
        try:
            hosts.stop_everything(0.0 if self.guard.hurry else STOP_GRACE_S)
        except InterruptedTwice:
            hosts.stop_everything(0.0)
            raise


def _check_held(hosts: RunHosts) -> None:
    """LinkLost: what was done meanwhile was done without this run's lock, and does not count."""
    if not hosts.locked:
        raise LinkLost(LOCK_LOST)

"""Run an experiment from its session: open the hosts, build, check settings, run the trials, report the outcome.

    open the hosts -> build -> deploy and check -> trials -> sampling check -> done, interrupted or failed

If the connection to a host is lost, the unit in flight is discarded, and the run waits for the host and continues.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import perfrunner
from perfrunner.build.builders import Builder, open_builder
from perfrunner.domain import Case
from perfrunner.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, HostError, PerfrunnerError
from perfrunner.experiment import events as ev
from perfrunner.experiment.interrupt import Interrupted, InterruptedTwice
from perfrunner.experiment.outdir import read_journal, trial_in_flight
from perfrunner.experiment.plan import (
    GROUPINGS_FACT,
    Plan,
    groupings,
    least_free,
    make_plan,
    record_groupings,
    stored_groupings,
)
from perfrunner.experiment.preflight.builds import Builds, Relinks, build_all, deploy_and_check
from perfrunner.experiment.preflight.hosts import HeldHosts, RunHosts, open_hosts
from perfrunner.experiment.preflight.requirements import (
    describe,
    note_servers,
    note_tools,
    require_cpus,
    require_perf,
    require_ports,
    require_sdk_there,
)
from perfrunner.experiment.recorder import Recorder
from perfrunner.experiment.sampling_check import run_sampling_check, sampling_trials
from perfrunner.experiment.schedule import Schedule
from perfrunner.experiment.session import RunContext, planned_blocks
from perfrunner.experiment.stopping import IN_A_ROW, RepeatedFailure, StoppingRule
from perfrunner.experiment.trial.placement import Deployed, TrialResult
from perfrunner.experiment.trial.runner import TrialRunner
from perfrunner.experiment.trial.setup import TrialSetup
from perfrunner.experiment.units import UnitRunner, run_units
from perfrunner.results import BuildRecord, ExperimentRecord, ExperimentState
from perfrunner.results.database import waiting
from perfrunner.results.records import FAILURE_FACT
from perfrunner.spec.model import Spec

if TYPE_CHECKING:
    from perfrunner.sources.resolve import Sources

STOP_GRACE_S = 5.0


@dataclass
class ExperimentRunner:
    """One run of an experiment: exists for one call of `run_experiment`."""

    context: RunContext
    sources: Sources
    cache_dir: Path
    resume_command: str
    plan: Plan = field(init=False)
    recorder: Recorder = field(init=False)
    blocks: int = field(init=False)
    facts: dict[str, Any] = field(init=False)
    failing: RepeatedFailure = field(init=False)
    not_usable: set[str] = field(init=False, default_factory=set)
    stopped: str = field(init=False, default="")
    tune: bool = False
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.facts = dict(self.experiment.facts)
        self.failing = RepeatedFailure(len(self.spec.variants))
        self.blocks = planned_blocks(self.context.session, self.spec)
        # A resumed run keeps its groups. The groups of a new run are adjusted when the memory of the engine
        # nodes is known (_fit_into_memory).
        seed, known = self.experiment.seed, stored_groupings(self.experiment.facts)
        self.plan = make_plan(self.spec, seed, known)
        self.recorder = Recorder(self.context, self._schedule())
        self.recorder.post_run = sampling_trials(self.spec, self.experiment.facts)
        self.recorder.recall()

    @property
    def spec(self) -> Spec:
        return self.context.spec

    @property
    def experiment(self) -> ExperimentRecord:
        return self.context.session.experiment

    @property
    def schedule(self) -> Schedule:
        return self.recorder.schedule

    def _schedule(self) -> Schedule:
        return Schedule(
            self.plan.first(self.blocks),
            max_discarded=self.spec.limits.max_discarded,
            redo_order=self.plan.redo_order,
        )

    # -- the flow

    def execute(self) -> ev.RunOutcome:
        try:
            self._announce()
            with (
                open_builder(self.spec.cluster, self.cache_dir, self.experiment.id) as build_place,
                open_hosts(
                    self.spec.cluster,
                    self.experiment.id,
                    self.context.listener,
                    tune=self.tune,
                    engine_cpus=self.spec.engine.cpus,
                    built_for=build_place.platform,
                ) as hosts,
            ):
                try:
                    require_cpus(self.spec, hosts.facts)
                    require_ports(self.spec, hosts.hosts)
                    require_sdk_there(self.spec, hosts.hosts)
                    require_perf(self.spec, hosts.engine_nodes)
                    builder = build_place.with_hosts(hosts.hosts)
                    self._describe(hosts)
                    builds = build_all(
                        self.spec,
                        self.sources,
                        builder,
                        self.cache_dir,
                        self.context.listener,
                        least=min(2, len(self.spec.variants)),  # a comparison needs two
                    )
                    self._note_builds(builds)
                    held = HeldHosts(self.context, self.recorder, hosts, self.facts)
                    deployed = self._deploy(hosts, held, builds)
                    self._measure(hosts, held, builds, deployed, builder)
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
        self.context.store.set_state(self.experiment.id, "running")
        if self.context.session.resumed:
            lost = trial_in_flight(list(read_journal(self.context.journal.path)))
            self.context.journal.append(
                "resumed", stored=len(self.context.session.trials), repeated=lost
            )
        else:
            self.context.journal.append(
                "begun", seed=self.experiment.seed, tool=perfrunner.__version__
            )
        self.context.listener.on_event(
            ev.PlanReady(
                experiment_id=self.experiment.id,
                name=self.experiment.name,
                directory=self.context.session.directory,
                variants=tuple(self.spec.variants),
                cases=self.spec.cases,
                blocks=self.blocks,
                trials_total=self.recorder.total,
                trials_done=self.recorder.done,
                seed=self.experiment.seed,
                resumed=self.context.session.resumed,
            )
        )
        self.recorder.tell_progress()

    def _describe(self, hosts: RunHosts) -> None:
        """Record the facts of the hosts; restart incomplete cases if the hosts changed."""
        description = describe(self.spec, self.experiment.facts, hosts.facts, self.recorder.done)
        for warning in description.warnings:
            self.context.listener.on_event(warning)
        if description.changes:
            for case in self.schedule.restart_partial_cases():
                self.context.journal.append("case-again", case=case, why=description.changes)
        self.facts = description.facts
        if GROUPINGS_FACT not in self.facts:
            self._fit_into_memory(hosts)
        # Imported late: it compares earlier runs, which no trial needs.
        from perfrunner.analysis.noise import FLOORS_FACT, known_noise_floor

        self.facts[GROUPINGS_FACT] = record_groupings(self.plan.groupings)
        self.facts[FLOORS_FACT] = waiting(
            lambda: known_noise_floor(self.context.store, self.spec, hosts.facts)
        )
        self.context.store.set_facts(self.experiment.id, self.facts)
        self.context.journal.append("hosts", facts=hosts.facts)

    def _fit_into_memory(self, hosts: RunHosts) -> None:
        """Adjust the groups to the memory of the engine nodes.

        Only done before the first trial, because all blocks of an experiment use the same groups.
        """
        nodes = [hosts.facts[name] for name in self.spec.cluster.engine_nodes]
        fitting = groupings(self.spec, least_free(nodes))
        if fitting != self.plan.groupings and not self.context.session.trials:
            for name, grouping in fitting.items():
                if grouping != self.plan.groupings[name]:
                    how = (
                        f"{grouping.group_size} variants at a time"
                        if grouping.group_size > 1
                        else "one variant at a time"
                    )
                    self.context.listener.on_event(ev.Warned(f"{name} runs {how}: {grouping.why}"))
            self.plan = replace(self.plan, groupings=fitting)
            self.recorder.schedule = self._schedule()

    def _note_builds(self, builds: Builds) -> None:
        for name, artifact in builds.artifacts.items():
            self.context.journal.append(
                "built", variant=name, build=artifact.build_id, cached=artifact.cached
            )
        if builds.tools is not None:
            self.context.journal.append("built-tools", build=builds.tools.build_id)
        for name, server in builds.servers.items():
            self.context.journal.append("built", variant=name, build=server.build_id, cached=True)
        tools = builds.tools_build(self.spec.baseline)
        if changed := note_tools(self.facts, tools.build_id):
            self.context.listener.on_event(ev.Warned(changed))
        self.context.store.set_facts(self.experiment.id, self.facts)
        self._give_up("build-failed", builds.failures)

    def _give_up(self, event: str, variants: Mapping[str, str]) -> None:
        """Exclude variants that cannot be measured, so that their failures are not redone.

        `variants` maps their names to the reason.
        """
        for name, message in variants.items():
            self.context.journal.append(event, variant=name, message=message)
            self.schedule.exclude(name)
            self.not_usable.add(name)

    def _deploy(self, hosts: RunHosts, held: HeldHosts, builds: Builds) -> dict[str, Deployed]:
        """Deploy and check the builds; repeat all settings checks if a connection is lost."""
        deployed = held.until_held(
            "settings checks",
            lambda: deploy_and_check(
                self.spec,
                builds,
                hosts,
                self.context.listener,
                self._store_build,
                self.cache_dir,
            ),
        )
        servers = {name: d.build_id for name, d in deployed.items() if d.server is not None}
        note_servers(self.facts, servers)
        self.context.store.set_facts(self.experiment.id, self.facts)
        self._give_up("settings-check-failed", builds.failed_checks)
        return deployed

    def _measure(
        self,
        hosts: RunHosts,
        held: HeldHosts,
        builds: Builds,
        deployed: dict[str, Deployed],
        builder: Builder,
    ) -> None:
        runner = TrialRunner(
            TrialSetup(
                spec=self.spec,
                run_id=self.experiment.id,
                seed=self.experiment.seed,
                engine_nodes=hosts.engine_nodes,
                load_clients=hosts.load_clients,
                shield=self.context.guard.shield,
                on_phase=lambda phase: self.context.listener.on_event(ev.TrialPhase(phase)),
                hurry=lambda: self.context.guard.hurry,
            ),
            trials_dir=self.context.session.directory / "trials",
            host_changes=lambda: hosts.changes(held.recorded),
        )
        relinks = Relinks(
            spec=self.spec,
            seed=self.experiment.seed,
            artifacts=builds.artifacts,
            deployed=deployed,
            placements=list(hosts.placements.values()),
            builder=builder,
            waiting=lambda line: self.context.listener.on_event(ev.Warned(line)),
        )
        stopping = StoppingRule(self.context, self.recorder, self.plan.block)
        stopping.recall()
        newest = max((t.block for t in self.context.session.trials), default=0)
        self.blocks = stopping.look(newest, self.blocks)
        units = UnitRunner(runner, builds, relinks, held)
        if run_units(self.recorder, stopping, self.blocks, units, self._hopeless):
            held.until_held(
                "sampling check",
                lambda: run_sampling_check(
                    self.recorder, self.plan, self.facts, deployed, runner, held.check
                ),
            )

    def _hopeless(self, results: Sequence[TrialResult]) -> bool:
        """Return whether the run should stop now, and record the reason as a failure."""
        cause = self.failing.add([r for r in results if r.task.variant not in self.not_usable])
        if cause is not None:
            self.stopped = (
                f"stopped: {IN_A_ROW} trials in a row failed with the same cause: {cause}"
            )
        elif self.schedule.past_budget:
            limit = self.spec.limits.max_discarded
            self.stopped = f"stopped: more than max_discarded = {limit} cases are discarded"
            for discarded in [result for result in results if result.status == "discarded"][:1]:
                self.stopped += f"; the last one: {discarded.task.variant}: {discarded.reason}"
        else:
            return False
        self.recorder.fail(self.stopped)
        self.context.journal.append("stopped", why=self.stopped)
        return True

    def _store_build(self, record: BuildRecord) -> None:
        with self.context.guard.shield():
            self.context.store.add_build(self.experiment.id, record)

    # -- the three ends

    def _finished(self) -> ev.RunOutcome:
        self.recorder.fail_given_up()
        for case in self.schedule.incomplete_cases():
            self.recorder.fail(
                f"block {case.block}, {Case(case.workload, case.bucket)} is incomplete and was not redone"
            )
        code = EXIT_FAILED if self.recorder.failures else EXIT_OK
        if self.stopped:
            self._note_failure(self.stopped)
        return self._end("failed" if self.stopped else "done", code)

    def _interrupted(self, stop: Interrupted) -> ev.RunOutcome:
        outcome = self._end("interrupted", EXIT_INTERRUPTED)
        self.context.listener.on_event(ev.Interrupted(stop.signal_name, self.resume_command))
        return outcome

    def _end(self, state: ExperimentState, code: int) -> ev.RunOutcome:
        self.context.store.set_state(self.experiment.id, state)
        self.context.journal.append(
            "interrupted" if state == "interrupted" else "finished", exit=code
        )
        self.context.listener.on_event(
            ev.RunFinished(
                experiment_id=self.experiment.id,
                exit_code=code,
                ok=self.recorder.counts["ok"],
                discarded=self.recorder.counts["discarded"],
                failed=self.recorder.counts["failed"],
                seconds=time.monotonic() - self.started,
            )
        )
        return ev.RunOutcome(
            self.experiment.id, code, self.context.session.directory, self.recorder.failures
        )

    def _failed(self, error: BaseException) -> None:
        """Record the error; the caller sees it as well. A full disk may prevent the record."""
        if isinstance(error, HostError):
            done = "completed trials are stored" if self.recorder.done else "no trial is completed"
            self.context.listener.on_event(ev.Warned(done, f"continue with: {self.resume_command}"))
        with contextlib.suppress(PerfrunnerError, OSError):
            self._note_failure(str(error))
            self.context.store.set_state(self.experiment.id, "failed")
        with contextlib.suppress(OSError):
            host = isinstance(error, HostError)
            code = error.exit_code if isinstance(error, PerfrunnerError) else EXIT_FAILED
            self.context.journal.append("failed", error=str(error), host=host, exit=code)

    def _note_failure(self, why: str) -> None:
        self.facts[FAILURE_FACT] = why
        self.context.store.set_facts(self.experiment.id, self.facts)

    def _stop_everything(self, hosts: RunHosts) -> None:
        try:
            hosts.stop_everything(0.0 if self.context.guard.hurry else STOP_GRACE_S)
        except InterruptedTwice:
            hosts.stop_everything(0.0)
            raise

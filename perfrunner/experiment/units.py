"""Run the units of an experiment one after the other, on hosts whose connections may be lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from perfrunner.experiment import events as ev
from perfrunner.experiment.preflight.builds import Builds, Relinks
from perfrunner.experiment.preflight.hosts import HeldHosts
from perfrunner.experiment.recorder import Recorder
from perfrunner.experiment.schedule import Unit
from perfrunner.experiment.stopping import StoppingRule
from perfrunner.experiment.trial.outcome import cut_off, not_run
from perfrunner.experiment.trial.placement import Deployed, TrialResult
from perfrunner.experiment.trial.runner import TrialRunner
from perfrunner.hosts import LinkLost

LEFT_OUT = "excluded from the group: the variant failed more than once and never succeeded"


@dataclass
class UnitRunner:
    """A runner for units, with the builds of a run, which are relinked for each block."""

    trials: TrialRunner
    builds: Builds
    relinks: Relinks
    held: HeldHosts

    def run(self, unit: Unit) -> list[TrialResult]:
        """Run a unit; if a connection is lost, discard the unit and wait for the hosts."""
        started = datetime.now(timezone.utc)
        first = unit.tasks[0]
        try:
            variants = self.relinks.of_block(first.block, first.attempt, self.held.losses)
            results = self._run_usable(unit, variants)
            self.held.check()
            if any(result.status == "failed" for result in results):
                self.held.require_work_dirs()
            return results
        except LinkLost as lost:
            reason = str(lost)
        self.held.regain(reason)
        return [cut_off(task, reason, started, self.trials.trials_dir) for task in unit.tasks]

    def _run_usable(self, unit: Unit, deployed: Mapping[str, Deployed]) -> list[TrialResult]:
        """Run the usable variants of a unit.

        Variants that were not built, failed the settings check or are excluded from their group get a failed trial.
        """
        runs = [task for task in unit.tasks if task.variant in deployed]
        results = self.trials.run(runs, deployed) if runs else []
        for task in (*unit.tasks, *unit.left_out):
            if task in runs:
                continue
            message = self.builds.failures.get(task.variant)
            reason = LEFT_OUT if message is None else f"the build failed: {message}"
            if task.variant in self.builds.failed_checks:
                reason = f"the settings check failed: {self.builds.failed_checks[task.variant]}"
            results.append(not_run(task, reason, message, self.trials.trials_dir))
        return results


def run_units(
    recorder: Recorder,
    stopping: StoppingRule,
    blocks: int,
    units: UnitRunner,
    hopeless: Callable[[Sequence[TrialResult]], bool] = lambda _: False,
) -> bool:
    """Run the units that the schedule of the recorder has left, and record their results.

    blocks: the number of planned blocks, which the stopping rule may raise.
    hopeless: given the results of a unit, whether the run should stop now.

    Returns whether all units were run.
    """
    schedule, listener = recorder.schedule, recorder.context.listener
    block = 0
    recorder.start_clock()
    while (unit := schedule.next()) is not None:
        first = unit.tasks[0]
        if first.attempt == 1 and first.block != block:
            block = first.block
            listener.on_event(ev.BlockStarted(block, blocks))
        units.held.hold()
        recorder.start(unit)
        results = units.run(unit)
        recorder.keep(results, units.relinks.deployed)
        if hopeless([result for result in results if result.task in unit.tasks]):
            return False
        blocks = stopping.look(first.block, blocks)
    return True

"""Profiles: after the last trial, the arms of the workloads that ask for one run once more, with perf at their engines.

They run as their trials do, side by side where those do, on builds as they are in the cache (not linked anew). Nothing
of it is a part of the comparison: the records are kept with the experiment's facts, their block is number 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfrunner.measure.perf import check_perf
from perfrunner.run.plan.ensembles import Layout, groups
from perfrunner.run.plan.schedule import Task
from perfrunner.run.trial.runner import TrialRunner
from perfrunner.run.trial.sampling_check import BLOCK
from perfrunner.run.trial.seats import Deployed, Seat, TrialResult
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import ToolWorkload

ATTEMPT = 3  # beside those of the sampling check


def cells_to_profile(spec: Spec) -> list[tuple[str, str]]:
    """(workload, bucket) of every cell whose workload asks for a profile."""
    return [cell for cell in spec.cells if spec.workloads[cell[0]].profile is not None]


def check_profiling(spec: Spec, engine_nodes: list[Seat]) -> None:
    """HostError, with what to do, when a workload asks for a profile that a host of it cannot give."""
    cells = cells_to_profile(spec)
    if not cells:
        return
    on_engines = [w for w, _ in cells if not isinstance(spec.workloads[w], ToolWorkload)]
    workload = (on_engines or [w for w, _ in cells])[0]
    for seat in engine_nodes if on_engines else engine_nodes[:1]:
        check_perf(seat.host, seat.run_dir, workload)


def take_profiles(
    runner: TrialRunner,
    spec: Spec,
    deployed: Mapping[str, Deployed],
    laid_out: Mapping[str, Layout],
    store: Path,
) -> Iterator[dict[str, Any]]:
    """One record for each arm and cell: results/profiles.ArmProfile. `store` is the directory of the store."""
    for position, (workload, bucket) in enumerate(cells_to_profile(spec), start=1):
        for ensemble, arms in _ensembles(spec, deployed, laid_out[workload]):
            tasks = [
                Task(BLOCK, ATTEMPT, position, workload, bucket, variant, ensemble)
                for variant in arms
            ]
            for result in runner.run(tasks, deployed, profiled=True):
                yield _record(result, store)


def _ensembles(
    spec: Spec, deployed: Mapping[str, Deployed], layout: Layout
) -> list[tuple[int, tuple[str, ...]]]:
    built = [variant for variant in spec.variants if variant in deployed]
    if layout.alone:
        return [(0, (variant,)) for variant in built]
    return list(enumerate(groups(built, spec.baseline, layout.arms), start=1)) if built else []


def _record(result: TrialResult, store: Path) -> dict[str, Any]:
    task = result.task
    taken = result.facts.get("profile")
    return {
        "workload": task.workload,
        "bucket": task.bucket,
        "variant": task.variant,
        "ensemble": task.ensemble,
        "status": result.status,
        "reason": result.reason,
        "directory": str(result.directory.relative_to(store)),
        **(taken if isinstance(taken, dict) else {}),
    }

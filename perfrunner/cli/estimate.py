"""How long a run is likely to take: from earlier trials of the same workload where there are any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from perfrunner.spec import Spec
from perfrunner.spec.workloads import Workload

MAX_EXPERIMENTS_READ = 5
BUILD_SECONDS = 60.0  # the first build of a variant, about; a cached one takes none

Cell = tuple[str, str]


@dataclass(frozen=True)
class Estimate:
    """Seconds of one trial of each cell, and whether they were measured."""

    seconds: Mapping[Cell, float]
    measured: frozenset[Cell]

    def total(self, spec: Spec, blocks: int | None = None) -> float:
        """All trials of so many blocks (the spec's), builds aside."""
        return (
            (blocks or spec.blocks)
            * len(spec.variants)
            * sum(self.seconds[cell] for cell in spec.cells)
        )


def estimate(spec: Spec, out_dir: Path) -> Estimate:
    """Reads the results directory, if there is one; never creates it."""
    measured = _measured(spec, out_dir)
    guessed = {(name, bucket): spec.workloads[name].expected_seconds for name, bucket in spec.cells}
    return Estimate({**guessed, **measured}, frozenset(measured))


def _measured(spec: Spec, out_dir: Path) -> dict[Cell, float]:
    if not (out_dir / "results.sqlite").is_file():
        return {}
    from perfrunner.results import ResultStore

    seconds: dict[Cell, list[float]] = {}
    with ResultStore.open(out_dir, create=False) as store:
        for summary in store.list()[-MAX_EXPERIMENTS_READ:]:
            old = dict(summary.experiment.spec_json.get("workloads", {}))
            same = {n for n, w in spec.workloads.items() if old.get(n) == _as_stored(w)}
            if not same:
                continue
            for trial in store.load(summary.experiment.id).trials:
                if trial.status == "ok" and trial.workload in same:
                    arms = trial.facts.get("arms") or [trial.variant]  # they share the time
                    cell = (trial.workload, trial.bucket)
                    seconds.setdefault(cell, []).append(trial.seconds / len(arms))
    return {cell: fmean(values) for cell, values in seconds.items() if cell in spec.cells}


def _as_stored(workload: Workload) -> object:
    return workload.model_dump(mode="json")

"""How long a run is likely to take: from earlier trials of the same workload where there are any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from perfrunner.cli import options
from perfrunner.cli.engine_source import find_engine_source
from perfrunner.errors import BuildError, UsageError

if TYPE_CHECKING:
    from perfrunner.spec import Spec
    from perfrunner.spec.cell import CellName
    from perfrunner.spec.variant import Variant
    from perfrunner.spec.workloads import Workload

MAX_EXPERIMENTS_READ = 5
BUILD_SECONDS = 60.0  # the first build of a variant, about; a cached one takes none


@dataclass(frozen=True)
class Estimate:
    """Seconds of one trial of each cell, and whether they were measured; `builds` that are still to be made."""

    seconds: Mapping[CellName, float]
    measured: frozenset[CellName]
    builds: int

    def trials(self, spec: Spec, blocks: int | None = None) -> float:
        """Seconds of all trials of so many blocks (the spec's)."""
        return (
            (blocks or spec.blocks)
            * len(spec.variants)
            * sum(self.seconds[cell] for cell in spec.cells)
        )

    def sampling_check(self, spec: Spec) -> float:
        """Seconds of the two trials a cell that say what sampling costs."""
        from perfrunner.run.trial.sampling_check import cells_to_check

        return 2 * sum(self.seconds[cell] for cell in cells_to_check(spec))

    def profiles(self, spec: Spec) -> float:
        """Seconds of the profiles at the end: a trial of each arm and profiled cell."""
        from perfrunner.run.trial.profiles import cells_to_profile

        return len(spec.variants) * sum(self.seconds[cell] for cell in cells_to_profile(spec))

    def total(self, spec: Spec, blocks: int | None = None) -> float:
        """Of builds, trials (of so many blocks, or the spec's), the sampling check and profiles."""
        beside = self.sampling_check(spec) + self.profiles(spec)
        return self.builds * BUILD_SECONDS + self.trials(spec, blocks) + beside


def estimate(
    spec: Spec, spec_path: Path | None, out_dir: Path, engine_src: Path | None, cache_dir: Path
) -> Estimate:
    """Reads the results directory and the build cache, if there are any; never creates them."""
    measured = _measured(spec, out_dir)
    guessed = {(name, bucket): spec.workloads[name].expected_seconds for name, bucket in spec.cells}
    try:
        source = find_engine_source(engine_src, spec_path)
    except UsageError:  # a run would say so
        source = None
    builds = _builds(spec, source, cache_dir)
    return Estimate({**guessed, **measured}, frozenset(measured), builds)


def _builds(spec: Spec, source: Path | None, cache_dir: Path) -> int:
    """Those that are not in the cache; of a source that is only found out in the run, or of a build host, all."""
    wanted = {
        (v.allocator.name, repr(sorted(v.options.items())), repr(v.source)): v
        for v in spec.variants.values()
    }
    from perfrunner.run.programs import arm_programs

    if spec.cluster.build_host is not None:  # only it could say which of them it would build
        source = None
    # A source of another revision makes the tools a build of their own.
    programs = arm_programs(spec) if any(v.source for v in spec.variants.values()) else ()
    return sum(not _built(variant, source, cache_dir, programs) for variant in wanted.values())


def _built(
    variant: Variant, source: Path | None, cache_dir: Path, programs: tuple[str, ...]
) -> bool:
    from perfrunner.build.builder import is_built

    if source is None or variant.source is not None:
        return False
    try:
        return is_built(variant, source, cache_dir, programs)
    except (BuildError, OSError):
        return False


def _measured(spec: Spec, out_dir: Path) -> dict[CellName, float]:
    if options.store_url() is None and not (out_dir / "results.sqlite").is_file():
        return {}

    seconds: dict[CellName, list[float]] = {}
    with options.open_results(out_dir) as store:
        for summary in store.list()[-MAX_EXPERIMENTS_READ:]:
            old = dict(summary.experiment.spec_json.get("workloads", {}))
            same = {n for n, w in spec.workloads.items() if _measured_alike(old.get(n), w)}
            if not same:
                continue
            for trial in store.load(summary.experiment.id).trials:
                if trial.status == "ok" and trial.workload in same:
                    arms = trial.facts.get("arms") or [trial.variant]  # they share the time
                    cell = (trial.workload, trial.bucket)
                    seconds.setdefault(cell, []).append(trial.seconds / len(arms))
    return {cell: fmean(values) for cell, values in seconds.items() if cell in spec.cells}


def _measured_alike(stored: Mapping[str, Any] | None, workload: Workload) -> bool:
    from perfrunner.spec.workloads import measured_settings

    now = workload.model_dump(mode="json")
    return stored is not None and measured_settings(stored) == measured_settings(now)

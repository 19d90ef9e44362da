"""Estimate the duration of a run, from earlier trials of the same workloads if there are any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from perfrunner.cli import options
from perfrunner.cli.request import find_engine_source
from perfrunner.errors import BuildError, UsageError

if TYPE_CHECKING:
    from perfrunner.cli.request import RunOptions
    from perfrunner.domain import Case
    from perfrunner.spec import Spec
    from perfrunner.spec.variant import Variant
    from perfrunner.spec.workloads import Workload

MAX_EXPERIMENTS_READ = 5
BUILD_SECONDS = 60.0  # roughly the first build of a variant; a cached build takes no time


@dataclass(frozen=True)
class Estimate:
    """The expected seconds of one trial of each case, and the number of missing builds.

    `measured` holds the cases whose duration comes from earlier trials.
    """

    seconds: Mapping[Case, float]
    measured: frozenset[Case]
    builds: int

    def trials(self, spec: Spec, blocks: int | None = None) -> float:
        """Return the seconds of all trials of `blocks` blocks (default: the spec's number)."""
        return (
            (blocks or spec.blocks)
            * len(spec.variants)
            * sum(self.seconds[case] for case in spec.cases)
        )

    def sampling_check(self, spec: Spec) -> float:
        """Return the seconds of the two trials per case that measure the overhead of sampling."""
        from perfrunner.experiment.plan import cases_to_check

        return 2 * sum(self.seconds[case] for case in cases_to_check(spec))

    def total(self, spec: Spec, blocks: int | None = None) -> float:
        """Return the seconds of builds, trials and the sampling check."""
        builds = self.builds * BUILD_SECONDS
        return builds + self.trials(spec, blocks) + self.sampling_check(spec)


def estimate(spec: Spec, spec_path: Path | None, given: RunOptions) -> Estimate:
    """Estimate a run from the results directory and the build cache, without creating them."""
    measured = _measured(spec, given.out_dir)
    guessed = {case: spec.expected_seconds(case.workload) for case in spec.cases}
    try:
        source = find_engine_source(given.engine_src, spec_path)
    except UsageError:  # a run reports this error itself
        source = None
    builds = _builds(spec, source, given.cache_dir)
    return Estimate({**guessed, **measured}, frozenset(measured), builds)


def _builds(spec: Spec, source: Path | None, cache_dir: Path) -> int:
    """Count the builds that are not in the cache.

    A build from a revision or on a build host counts as missing: only the run finds out.
    """
    wanted = {
        (v.allocator.name, repr(sorted(v.options.items())), repr(v.source)): v
        for v in spec.variants.values()
        if v.server is None
    }
    servers = _server_builds(spec, cache_dir)
    from perfrunner.experiment.preflight.builds import (
        load_tools,
        tool_programs,
        variant_programs,
        whole_programs,
    )

    if not wanted:
        return servers + (not _built(load_tools(), source, cache_dir, tool_programs(spec)))
    if spec.cluster.build_host is not None:  # only the build host knows what is in its cache
        source = None
    # If a variant has another source, the load tools are a separate build.
    foreign = any(v.source for v in spec.variants.values())
    programs = variant_programs(spec) if foreign else whole_programs(spec)
    return servers + sum(
        not _built(variant, source, cache_dir, programs) for variant in wanted.values()
    )


def _server_builds(spec: Spec, cache_dir: Path) -> int:
    """Count the servers to build that are not in the cache."""
    from perfrunner.servers.checkout import is_built

    wanted = {repr(v.server): v.server for v in spec.variants.values() if v.server is not None}
    return sum(not is_built(server, cache_dir) for server in wanted.values())


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


def _measured(spec: Spec, out_dir: Path) -> dict[Case, float]:
    if options.store_url() is None and not (out_dir / "results.sqlite").is_file():
        return {}

    seconds: dict[Case, list[float]] = {}
    with options.open_results(out_dir) as store:
        for summary in store.list()[-MAX_EXPERIMENTS_READ:]:
            old = dict(summary.experiment.spec_json.get("workloads", {}))
            same = {n for n, w in spec.workloads.items() if _measured_alike(old.get(n), w)}
            if not same:
                continue
            for trial in store.load(summary.experiment.id).trials:
                if trial.status == "ok" and trial.workload in same:
                    variants = trial.facts.get("variants") or [trial.variant]  # they share the time
                    case = trial.case
                    seconds.setdefault(case, []).append(trial.seconds / len(variants))
    return {case: fmean(values) for case, values in seconds.items() if case in spec.cases}


def _measured_alike(stored: Mapping[str, Any] | None, workload: Workload) -> bool:
    from perfrunner.spec.workloads import measured_settings

    now = workload.model_dump(mode="json")
    return stored is not None and measured_settings(stored) == measured_settings(now)

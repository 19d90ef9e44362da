"""`perfrunner plan`: show what a run would do, in which order, and for how long.

The duration is estimated from earlier trials of the same workloads if there are any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from perfrunner.cli import options
from perfrunner.cli.output import duration, print_json, result_console
from perfrunner.cli.request import RunOptions, find_engine_source, gathered, read_spec
from perfrunner.errors import BuildError, UsageError
from perfrunner.text import count_of, product_of

if TYPE_CHECKING:
    from rich.table import Table

    from perfrunner.domain import Case
    from perfrunner.experiment.plan import Grouping, Plan
    from perfrunner.spec.model import Spec
    from perfrunner.spec.variant import Variant
    from perfrunner.spec.workloads import Workload


@click.command(
    "plan",
    epilog="\b\nExamples:\n  perfrunner plan specs/experiments/quickstart.yaml --seed 41"
    "\n  perfrunner plan spec.yaml --set blocks=20 --json"
    "\n  perfrunner plan spec.yaml --profile historic      the duration with this profile",
)
@options.spec_argument
@options.set_option
@options.profile_option
@options.source_option
@options.repeats_option
@options.cluster_option
@options.seed_option
@options.workloads_option
@options.variants_option
@options.out_option
@options.cache_option
@options.engine_source_option
@options.json_option
@gathered(RunOptions, "given")
def command(spec_path: Path, given: RunOptions) -> None:
    """Show the trials that a run of SPEC would make, in order, and how long they would take.

    A line of the order is a trial, or a group of trials that run interleaved.
    """
    spec = given.selected(read_spec(spec_path, given))
    show_plan(spec, given, estimate(spec, spec_path, given))


def show_plan(spec: Spec, given: RunOptions, expected: Estimate) -> None:
    """Print the plan of a spec, also for `run --dry-run`.

    The groups depend on free memory, which is known in advance only for this machine.
    """
    from perfrunner.experiment.plan import draw_seed, groupings, make_plan
    from perfrunner.hosts.facts import memory_available_here

    seed = spec.seed if given.seed is None else given.seed
    free = memory_available_here() if spec.cluster.transport == "local" else None
    grouped = groupings(spec, free)
    plan = make_plan(spec, draw_seed() if seed is None else seed, grouped)
    if given.as_json:
        print_json(_document(spec, plan, expected, grouped, seed is None))
    else:
        _print(spec, plan, expected, grouped, seed is None)


def _document(
    spec: Spec, plan: Plan, expected: Estimate, grouped: Mapping[str, Grouping], drawn: bool
) -> dict[str, object]:
    from perfrunner.experiment.plan import record_groupings

    return {
        "experiment": spec.name,
        "baseline": spec.baseline,
        "cluster": spec.cluster.name,
        "blocks": spec.blocks,
        "seed": plan.seed,
        "seed_drawn": drawn,
        "expected_seconds": round(expected.total(spec), 1),
        "blocks_range": list(block_range(spec)),
        "expected_seconds_range": [round(expected.total(spec, n), 1) for n in block_range(spec)],
        "builds_to_make": expected.builds,
        "groupings": record_groupings(grouped),
        "variants": {k: v.model_dump(mode="json") for k, v in spec.variants.items()},
        "trials": [
            {name: value for name, value in vars(trial).items() if name != "attempt"}
            for trial in plan.trials
        ],
    }


def _besides_trials(spec: Spec, expected: Estimate) -> str:
    """Describe what the expected time includes besides the trials."""
    parts = []
    if expected.builds:
        seconds = duration(expected.builds * BUILD_SECONDS)
        builds = "1 build that is" if expected.builds == 1 else f"{expected.builds} builds that are"
        parts.append(f"{builds} not in the cache (about {seconds})")
    if check := expected.sampling_check(spec):
        parts.append(f"the sampling check ({duration(check)})")
    return f"this includes {' and '.join(parts)}" if parts else "all builds are in the cache"


def _print(
    spec: Spec, plan: Plan, expected: Estimate, grouped: Mapping[str, Grouping], drawn: bool
) -> None:
    console = result_console()
    console.print(
        f"{spec.name}: {count_of(len(plan.trials), 'trial')}"
        f" ({product_of(len(spec.variants), len(spec.cases), spec.blocks)}),"
        f" about {duration(expected.total(spec))} on {spec.cluster.name}"
    )
    origin = "drawn now; a run draws another one unless --seed is given" if drawn else "given"
    console.print(f"seed {plan.seed} ({origin}); {_besides_trials(spec, expected)}")
    if spec.precision is not None:
        fewest, most = block_range(spec)
        shortest, longest = (duration(expected.total(spec, n)) for n in (fewest, most))
        console.print(
            f"precision ±{100 * spec.precision:g} %: each case stops after {fewest} to {most}"
            f" clean blocks, so the run takes {shortest} to {longest}"
        )
    console.print(_variant_table(spec))
    console.print(_case_table(spec, expected, grouped))
    console.print(_order_table(plan))


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    return Table(*columns, box=None, title=title, title_justify="left")


def _variant_table(spec: Spec) -> Table:
    from rich.markup import escape

    table = _table("variants", "variant", "allocator", "options")
    for name, variant in spec.variants.items():
        mark = " (baseline)" if name == spec.baseline else ""
        allocator = (
            variant.allocator.preload or variant.allocator.name,
            variant.allocator.option_string,
        )
        source = {} if variant.source is None else {"source": variant.source.text}
        if variant.server is not None:
            source = {"server": variant.server.text}
        rest = {**source, **variant.options, **variant.params, **variant.env}
        options = " ".join(f"{k}={v}" for k, v in rest.items())
        table.add_row(escape(f"{name}{mark}"), " ".join(filter(None, allocator)), options)
    return table


def _case_table(spec: Spec, expected: Estimate, grouped: Mapping[str, Grouping]) -> Table:
    from rich.markup import escape

    table = _table("cases", "workload", "bucket", "time per trial", "schedule")
    for case in spec.cases:
        known = "measured before" if case in expected.measured else "guess"
        seconds = f"{duration(expected.seconds[case])} ({known})"
        table.add_row(*case, seconds, escape(schedule(grouped[case[0]], len(spec.variants))))
    return table


def _order_table(plan: Plan) -> Table:
    from rich.markup import escape

    table = _table("order", "block", "workload", "bucket", "variants in order")
    rows: dict[tuple[int, str, str, int], list[str]] = {}
    for trial in plan.trials:
        key = (trial.block, trial.workload, trial.bucket, trial.group)
        rows.setdefault(key, []).append(trial.variant)
    for (block, workload, bucket, _), names in rows.items():
        table.add_row(str(block), workload, bucket, escape("  ".join(names)))
    return table


def block_range(spec: Spec) -> tuple[int, int]:
    """Return the smallest and the largest number of blocks that a case may get."""
    from perfrunner.experiment.stopping import FEWEST_BLOCKS, MOST_BLOCKS

    return (spec.blocks, spec.blocks) if spec.precision is None else (FEWEST_BLOCKS, MOST_BLOCKS)


def schedule(grouping: Grouping, variants: int) -> str:
    """Describe how the variants of a workload are scheduled, and why not all are interleaved."""
    if grouping.alone:
        return f"one after the other: {grouping.why}"
    if grouping.group_size < variants:
        return f"interleaved, {grouping.group_size} of {variants} at a time: {grouping.why}"
    return "interleaved"


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
        from perfrunner.experiment.plan import make_plan

        block = make_plan(spec, seed=0).block(1)  # each group has a trial of the baseline
        return (blocks or spec.blocks) * sum(self.seconds[trial.case] for trial in block)

    def sampling_check(self, spec: Spec) -> float:
        """Return the seconds of the trials that measure the overhead of sampling."""
        from perfrunner.experiment.events import TRIALS_PER_CHECK
        from perfrunner.experiment.plan import cases_to_check

        return TRIALS_PER_CHECK * sum(self.seconds[case] for case in cases_to_check(spec))

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
    from perfrunner.servers.prepare import is_built

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
    if not options.has_store(out_dir):
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

"""`perfrunner plan`: what would run, in which order, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import options
from perfrunner.cli.estimate import BUILD_SECONDS, Estimate, estimate
from perfrunner.cli.output import duration, print_json, result_console
from perfrunner.run.plan.precision import FEWEST_BLOCKS, MOST_BLOCKS

if TYPE_CHECKING:
    from perfrunner.run.plan.ensembles import Layout
    from perfrunner.run.plan.order import Plan
    from perfrunner.spec import Spec


@click.command(
    "plan",
    short_help="What would run, in order, and for how long.",
    epilog="\b\nExamples:\n  perfrunner plan specs/experiments/quickstart.yaml --seed 41"
    "\n  perfrunner plan spec.yaml --set blocks=20 --json"
    "\n  perfrunner plan spec.yaml --profile historic      how long the historic size takes",
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
def command(
    spec_path: Path,
    overrides: tuple[str, ...],
    profile: str | None,
    named_sources: tuple[str, ...],
    repeats: int | None,
    cluster: Path | None,
    seed: int | None,
    workloads: tuple[str, ...],
    variants: tuple[str, ...],
    out_dir: Path,
    cache_dir: Path,
    engine_src: Path | None,
    as_json: bool,
) -> None:
    """Show what a run would do: the trials in their order (side by side: that of their slots), and for how long."""
    spec = options.read_spec(
        spec_path, overrides, cluster, repeats, named_sources, profile, engine_src
    )
    spec = spec.restricted(
        options.selection("workload", workloads, tuple(spec.workloads)),
        options.selection("variant", variants, tuple(spec.variants)),
    )
    expected = estimate(spec, spec_path, out_dir, engine_src, cache_dir)
    show_plan(spec, seed, expected, as_json)


def show_plan(spec: Spec, seed: int | None, expected: Estimate, as_json: bool) -> None:
    """Print the plan of a spec; also `run --dry-run`. What memory allows is known beforehand on this machine only."""
    from perfrunner.cluster.facts import memory_available_here
    from perfrunner.run.plan.ensembles import layouts
    from perfrunner.run.plan.order import draw_seed, make_plan

    given = spec.seed if seed is None else seed
    free = memory_available_here() if spec.cluster.transport == "local" else None
    laid_out = layouts(spec, free)
    plan = make_plan(spec, draw_seed() if given is None else given, laid_out)
    if as_json:
        print_json(_document(spec, plan, expected, laid_out, given is None))
    else:
        _print(spec, plan, expected, laid_out, given is None)


def _document(
    spec: Spec, plan: Plan, expected: Estimate, laid_out: Mapping[str, Layout], drawn: bool
) -> dict[str, object]:
    from perfrunner.run.plan.ensembles import record_layouts
    from perfrunner.run.trial.profiles import cells_to_profile

    return {
        "experiment": spec.name,
        "baseline": spec.baseline,
        "cluster": spec.cluster.name,
        "blocks": plan.blocks,
        "seed": plan.seed,
        "seed_drawn": drawn,
        "expected_seconds": round(expected.total(spec), 1),
        "blocks_range": list(block_range(spec)),
        "expected_seconds_range": [round(expected.total(spec, n), 1) for n in block_range(spec)],
        "builds_to_make": expected.builds,
        "profiled_cells": [list(cell) for cell in cells_to_profile(spec)],
        "layouts": record_layouts(laid_out),
        "variants": {k: v.model_dump(mode="json") for k, v in spec.variants.items()},
        "trials": [vars(trial) for trial in plan.trials],
    }


def _beside(spec: Spec, expected: Estimate) -> str:
    """What the time holds beside the trials."""
    found = []
    if expected.builds:
        seconds = duration(expected.builds * BUILD_SECONDS)
        found.append(f"{expected.builds} builds that are not in the cache (about {seconds})")
    if check := expected.sampling_check(spec):
        found.append(f"the sampling check ({duration(check)})")
    if profiles := expected.profiles(spec):
        found.append(f"profiles with perf, not measured ({duration(profiles)})")
    return f"in that time: {' and '.join(found)}" if found else "every build is in the cache"


def _print(
    spec: Spec, plan: Plan, expected: Estimate, laid_out: Mapping[str, Layout], drawn: bool
) -> None:
    from rich.markup import escape
    from rich.table import Table

    console = result_console()
    console.print(
        f"{spec.name}: {len(spec.variants)} variants x {len(spec.cells)} cells x {plan.blocks} blocks = "
        f"{len(plan.trials)} trials, about {duration(expected.total(spec))} on {spec.cluster.name}"
    )
    origin = "drawn now; a run draws its own unless --seed is given" if drawn else "given"
    console.print(f"seed {plan.seed} ({origin}); {_beside(spec, expected)}")
    if spec.precision is not None:
        least, most = (duration(expected.total(spec, n)) for n in block_range(spec))
        console.print(
            f"precision ±{100 * spec.precision:g} %: each cell ends by itself between {FEWEST_BLOCKS} and"
            f" {MOST_BLOCKS} clean blocks, so it takes {least} to {most}"
        )
    settings = Table(
        "variant", "allocator", "options", box=None, title="variants", title_justify="left"
    )
    for name, variant in spec.variants.items():
        mark = " (baseline)" if name == spec.baseline else ""
        allocator = " ".join(
            filter(None, (variant.allocator.name, variant.allocator.option_string))
        )
        source = {} if variant.source is None else {"source": variant.source.text}
        rest = {**source, **variant.options, **variant.params, **variant.env}
        settings.add_row(
            escape(f"{name}{mark}"), allocator, " ".join(f"{k}={v}" for k, v in rest.items())
        )
    console.print(settings)
    cells = Table(
        "workload",
        "bucket",
        "a trial takes",
        "arms run",
        box=None,
        title="cells",
        title_justify="left",
    )
    for cell in spec.cells:
        known = "measured before" if cell in expected.measured else "guess"
        takes = f"{duration(expected.seconds[cell])} ({known})"
        cells.add_row(*cell, takes, escape(how(laid_out[cell[0]], len(spec.variants))))
    console.print(cells)
    order = Table(
        "block",
        "workload",
        "bucket",
        "variants in order",
        box=None,
        title="order",
        title_justify="left",
    )
    rows: dict[tuple[int, str, str, int], list[str]] = {}
    for trial in plan.trials:
        place = (trial.block, trial.workload, trial.bucket, trial.ensemble)
        rows.setdefault(place, []).append(trial.variant)
    for (block, workload, bucket, _), names in rows.items():
        order.add_row(str(block), workload, bucket, escape("  ".join(names)))
    console.print(order)


def block_range(spec: Spec) -> tuple[int, int]:
    """The fewest and the most blocks that a cell may come to."""
    return (spec.blocks, spec.blocks) if spec.precision is None else (FEWEST_BLOCKS, MOST_BLOCKS)


def how(layout: Layout, arms: int) -> str:
    """How the arms of a workload run, and why not all of them side by side."""
    if layout.alone:
        return f"one after the other: {layout.why}"
    if layout.arms < arms:
        return f"side by side, at most {layout.arms} of {arms} at a time: {layout.why}"
    return "side by side"

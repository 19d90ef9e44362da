"""`perfrunner profile`: the stacks of a profiled experiment, for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.errors import UsageError

if TYPE_CHECKING:
    from perfrunner.measure.folded import Folded
    from perfrunner.results import ExperimentData
    from perfrunner.results.profiles import ArmProfile


@click.command(
    "profile",
    short_help="The stacks of a profiled experiment, for other tools.",
    epilog="\b\nExamples:\n  perfrunner profile                                  the latest experiment's baseline"
    "\n  perfrunner profile quickstart --arm jemalloc-5.1.0 > jemalloc.folded"
    "\n  perfrunner profile --arm always --cell append/ephemeral | flamegraph.pl > always.svg"
    "\n  perfrunner profile --arm always --against auto | flamegraph.pl > difference.svg"
    "\n\nA workload with `profile: perf` is profiled: docs/specs.md.",
)  # fmt: skip
@click.argument("experiment", required=False, shell_complete=complete.experiments)
@click.option(
    "--arm",
    metavar="VARIANT",
    help="Whose. Default: the baseline.",
    shell_complete=complete.stored_variants,
)
@click.option(
    "--against",
    metavar="VARIANT",
    help="Print both counts of each stack, this variant's first: what difffolded.pl gives.",
    shell_complete=complete.stored_variants,
)
@click.option(
    "--cell",
    metavar="WORKLOAD[/BUCKET]",
    help="In which cell. Default: the only one that was profiled.",
)
@options.out_option
def command(
    experiment: str | None,
    arm: str | None,
    against: str | None,
    cell: str | None,
    out_dir: Path,
) -> None:
    """Print folded stacks of an EXPERIMENT: an id, the start of one, or a spec's name; default the latest.

    A line is a chain of callers, the outermost first, and how many samples saw it: `thread;caller;function 17`.
    """
    from perfrunner.results.profiles import read_profile

    with options.open_results(out_dir) as store:
        data = store.load(store.resolve(experiment).id)
    baseline = str(data.experiment.spec_json.get("baseline", ""))
    taken = _of_cell(data, cell)
    its = _of_variant(taken, arm or baseline)
    stacks = read_profile(data, its)
    if against is None:
        click.echo(stacks.text(), nl=False)
        return
    beside = [one for one in taken if one.ensemble == its.ensemble] or taken
    click.echo(_both(read_profile(data, _of_variant(beside, against)), stacks), nl=False)


def _of_cell(data: ExperimentData, cell: str | None) -> list[ArmProfile]:
    from perfrunner.results.profiles import arm_profiles

    taken = arm_profiles(data)
    if not taken:
        raise UsageError(
            f"{data.experiment.id} has no profiles", "a workload with `profile: perf` is profiled"
        )
    cells = list(dict.fromkeys(f"{one.workload}/{one.bucket}" for one in taken))
    wanted = [c for c in cells if cell is None or c == cell or c.split("/")[0] == cell]
    if len(wanted) != 1:
        which = "which cell?" if wanted else f"no profiled cell {cell}"
        raise UsageError(f"{which} of {data.experiment.id}", f"--cell {' or '.join(cells)}")
    return [one for one in taken if f"{one.workload}/{one.bucket}" == wanted[0]]


def _of_variant(taken: list[ArmProfile], variant: str) -> ArmProfile:
    for one in taken:
        if one.variant == variant:
            return one
    names = ", ".join(dict.fromkeys(one.variant for one in taken))
    raise UsageError(f"no profile of {variant}", f"there are {names}")


def _both(before: Folded, after: Folded) -> str:
    """`stack BEFORE AFTER`, a line for each stack of either."""
    stacks = sorted({*before.counts, *after.counts})
    return "".join(
        f"{';'.join(s)} {before.counts.get(s, 0)} {after.counts.get(s, 0)}\n" for s in stacks
    )

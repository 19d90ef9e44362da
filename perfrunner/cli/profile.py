"""`perfrunner profile`: print the CPU profiles of an experiment as folded stacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.errors import UsageError

if TYPE_CHECKING:
    from perfrunner.measure.cpu_profile import Folded
    from perfrunner.results import ExperimentData
    from perfrunner.results.profiles import VariantProfile


@click.command(
    "profile",
    short_help="Print the CPU profiles of an experiment.",
    epilog="\b\nExamples:\n  perfrunner profile                                  baseline of the latest experiment"
    "\n  perfrunner profile quickstart --variant jemalloc-5.1.0 > jemalloc.folded"
    "\n  perfrunner profile --variant always --case append/ephemeral | flamegraph.pl > always.svg"
    "\n  perfrunner profile --variant always --against auto | flamegraph.pl > difference.svg"
    "\n\nA workload is profiled if its spec has `profile: perf` (see docs/reference/specs.md).",
)  # fmt: skip
@click.argument("experiment", required=False, shell_complete=complete.experiments)
@click.option(
    "--variant",
    metavar="VARIANT",
    help="Variant to print (default: the baseline).",
    shell_complete=complete.stored_variants,
)
@click.option(
    "--against",
    metavar="VARIANT",
    help="Print two counts per stack, this variant's first, in the format of difffolded.pl (default: one count).",
    shell_complete=complete.stored_variants,
)
@click.option(
    "--case",
    metavar="WORKLOAD[/BUCKET]",
    help="Case to print (default: the only profiled case).",
)
@options.out_option
def command(
    experiment: str | None,
    variant: str | None,
    against: str | None,
    case: str | None,
    out_dir: Path,
) -> None:
    """Print folded stacks of EXPERIMENT: an id, the start of one, or a spec name (default: the latest).

    A line is a call stack, the outermost function first, and its number of samples: `thread;caller;function 17`.
    """
    from perfrunner.results.profiles import read_profile

    with options.open_results(out_dir) as store:
        data = store.load(store.resolve(experiment).id)
    baseline = str(data.experiment.spec_json.get("baseline", ""))
    profiles = _of_case(data, case)
    chosen = _of_variant(profiles, variant or baseline)
    stacks = read_profile(data, chosen)
    if against is None:
        click.echo(stacks.text(), nl=False)
        return
    same_group = [profile for profile in profiles if profile.group == chosen.group] or profiles
    click.echo(_both(read_profile(data, _of_variant(same_group, against)), stacks), nl=False)


def _of_case(data: ExperimentData, case: str | None) -> list[VariantProfile]:
    from perfrunner.results.profiles import variant_profiles

    profiles = variant_profiles(data)
    if not profiles:
        raise UsageError(
            f"{data.experiment.id} has no profiles",
            "set `profile: perf` for a workload of the spec and run it again",
        )
    cases = list(dict.fromkeys(f"{profile.workload}/{profile.bucket}" for profile in profiles))
    wanted = [c for c in cases if case is None or c == case or c.split("/")[0] == case]
    if len(wanted) != 1:
        problem = "several profiled cases" if wanted else f"no profiled case {case}"
        raise UsageError(
            f"{data.experiment.id} has {problem}", f"choose one: --case {' | '.join(cases)}"
        )
    return [profile for profile in profiles if f"{profile.workload}/{profile.bucket}" == wanted[0]]


def _of_variant(profiles: list[VariantProfile], variant: str) -> VariantProfile:
    for profile in profiles:
        if profile.variant == variant:
            return profile
    names = ", ".join(dict.fromkeys(profile.variant for profile in profiles))
    raise UsageError(f"no profile of variant {variant}", f"profiled variants: {names}")


def _both(before: Folded, after: Folded) -> str:
    """Return `stack BEFORE AFTER` lines for the stacks of two profiles."""
    stacks = sorted({*before.counts, *after.counts})
    return "".join(
        f"{';'.join(s)} {before.counts.get(s, 0)} {after.counts.get(s, 0)}\n" for s in stacks
    )

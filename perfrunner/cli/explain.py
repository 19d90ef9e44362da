"""`perfrunner explain` and `profile`: show which functions' CPU time changed, or print the CPU profiles themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.output import note, print_json, result_console
from perfrunner.errors import UsageError
from perfrunner.spec.suggest import did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from perfrunner.analysis.cases import CaseBlocks
    from perfrunner.measure.cpu_profile import Folded
    from perfrunner.report.explain import ProfiledPair
    from perfrunner.results import ExperimentData


@click.command(
    "explain",
    epilog="\b\nExamples:\n  perfrunner run SPEC --set workloads.pillowfight.profile=perf"
    "\n  perfrunner explain glibc jemalloc                 two variants of the latest experiment"
    "\n  perfrunner explain quickstart glibc jemalloc      two variants of a named experiment"
    "\n  perfrunner explain glibc jemalloc --flame why.svg"
    "\n\nA workload with `profile: perf` records every trial with perf (see docs/how-to/explain.md).",
)
@click.argument("names", metavar="[RUN] A B", nargs=-1, shell_complete=complete.comparable)
@click.option(
    "--case",
    metavar="WORKLOAD[/BUCKET]",
    help="Workload and bucket, as WORKLOAD/BUCKET (default: every profiled case).",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="List every compared function (default: those that changed).",
)
@click.option(
    "--flame",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a differential flame graph of the case as SVG.",
)
@options.out_option
@options.json_option
def command(
    names: tuple[str, ...],
    case: str | None,
    every: bool,
    flame: Path | None,
    out_dir: Path,
    as_json: bool,
) -> None:
    """Compare where variants A and B of RUN (default: the latest experiment) spend their CPU time per operation.

    Each function has a change with an interval over blocks. Functions are listed if they changed at a false discovery
    rate of 5 %. Front end and background threads are separate rows.
    """
    from perfrunner.report.explain import explain_document, profiled_pair

    if len(names) not in (2, 3):
        raise UsageError(
            f"expected the names of two variants, A and B; got {', '.join(names) or 'none'}",
            "perfrunner explain [RUN] A B",
        )
    *run, a, b = names
    with options.open_results(out_dir) as store:
        data = store.load(store.resolve(run[0] if run else None).id)
    _check_variants(data, a, b)
    pairs = [profiled_pair(data, chosen, a, b) for chosen in _cases(data, case)]
    if flame is not None:
        _write_flame(pairs, flame)
    if as_json:
        print_json(explain_document(pairs))
        return
    console = result_console()
    for pair in pairs:
        _print(console, pair, every=every)


def _check_variants(data: ExperimentData, a: str, b: str) -> None:
    from perfrunner.analysis.cases import no_variant

    variants = list(dict.fromkeys(trial.variant for trial in data.trials))
    for name in (a, b):
        if name not in variants:
            raise no_variant(data.experiment.id, name, variants)
    if a == b:
        raise UsageError(f"expected two different variants, got {a} twice")


def _cases(data: ExperimentData, wanted: str | None) -> list[CaseBlocks]:
    from perfrunner.report.explain import profiled_cases

    cases = profiled_cases(data)
    if not cases:
        workloads = list(dict.fromkeys(trial.workload for trial in data.trials))
        sets = " ".join(f"--set workloads.{name}.profile=perf" for name in workloads[:1])
        raise UsageError(
            f"{data.experiment.id} has no CPU profiles",
            f"run it again with {sets or 'profile: perf in its workloads'}",
        )
    names = {"/".join(case.case): case for case in cases}
    chosen = [case for name, case in names.items() if _is_meant(name, wanted)]
    if not chosen:
        raise UsageError(
            f"{data.experiment.id} has no profiled case {wanted}", f"its cases: {', '.join(names)}"
        )
    return chosen


def _is_meant(name: str, wanted: str | None) -> bool:
    """Return whether --case means this case: its whole name, or its workload alone."""
    return wanted in (None, name, name.partition("/")[0])


def _write_flame(pairs: list[ProfiledPair], path: Path) -> None:
    from perfrunner.report.flame import difference_svg, frames, standalone

    if len(pairs) > 1:
        cases = " | ".join("/".join(pair.case) for pair in pairs)
        raise UsageError(
            "--flame draws one case, and several have profiles", f"choose one: --case {cases}"
        )
    (pair,) = pairs
    label = f"CPU time of {pair.variant} against {pair.base} in {pair.case}"
    svg = difference_svg(frames(pair.base_stacks, pair.variant_stacks), label)
    try:
        path.write_text(standalone(svg), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    note(f"wrote {path}")


def _print(console: Console, pair: ProfiledPair, *, every: bool) -> None:
    from rich.text import Text

    from perfrunner.report.explain import (
        NO_COUNTERS,
        event_rows,
        function_rows,
        heading,
        summary_lines,
        title,
    )

    rows = function_rows(pair, every=every)
    console.print(Text(title(pair), style="bold"))
    for line in summary_lines(pair):
        console.print(Text(line))
    if rows:
        console.print()
        _table(console, heading(pair), rows, left=2)
    else:
        console.print(Text("No function's CPU time changed (--all lists every function)."))
    console.print()
    if events := event_rows(pair):
        _table(console, ["event", pair.base, pair.variant, "change", "q"], events, left=1)
    else:
        console.print(Text(NO_COUNTERS))
    for line in pair.unread:
        console.print(Text(line))
    console.print()


def _table(console: Console, names: list[str], rows: list[tuple[str, ...]], *, left: int) -> None:
    """Print a table whose first `left` columns are text."""
    from rich.table import Table
    from rich.text import Text

    from perfrunner.report.explain import short_function

    table = Table(box=None, pad_edge=False)
    for index, name in enumerate(names):
        table.add_column(name, justify="left" if index < left else "right", no_wrap=index >= left)
    for row in rows:
        table.add_row(*(Text(short_function(cell)) for cell in row))
    console.print(table)


@click.command(
    "profile",
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
def profile(
    experiment: str | None,
    variant: str | None,
    against: str | None,
    case: str | None,
    out_dir: Path,
) -> None:
    """Print folded stacks of EXPERIMENT: an id, the start of one, or a spec name (default: the latest).

    A line is a call stack, the outermost function first, and its number of samples in all blocks:
    `thread;caller;function 17`.
    """
    from perfrunner.report.explain import profiled_pair, variant_stacks

    with options.open_results(out_dir) as store:
        data = store.load(store.resolve(experiment).id)
    chosen = variant or str(data.experiment.spec_json.get("baseline", ""))
    profiled = _only_case(data, case)
    _check_profiled(profiled, chosen, against)
    if against is None:
        stacks, unread = variant_stacks(data, profiled, chosen)
        text = stacks.text()
    else:
        pair = profiled_pair(data, profiled, against, chosen)
        text, unread = _both(pair.base_stacks, pair.variant_stacks), pair.unread
    for line in unread:
        note(line)
    click.echo(text, nl=False)


def _only_case(data: ExperimentData, wanted: str | None) -> CaseBlocks:
    chosen, *others = _cases(data, wanted)
    if others:
        names = " | ".join("/".join(case.case) for case in (chosen, *others))
        raise UsageError(
            f"{data.experiment.id} has several profiled cases", f"choose one: --case {names}"
        )
    return chosen


def _check_profiled(case: CaseBlocks, *wanted: str | None) -> None:
    from perfrunner.results.raw import trial_profile

    known = list(dict.fromkeys(t.variant for t in case.trials if trial_profile(t) is not None))
    for name in wanted:
        if name is not None and name not in known:
            raise UsageError(
                f"no profile of variant {name}{did_you_mean(name, known)}",
                f"profiled variants: {', '.join(known)}",
            )


def _both(before: Folded, after: Folded) -> str:
    """Return `stack BEFORE AFTER` lines for the stacks of two profiles."""
    stacks = sorted({*before.counts, *after.counts})
    return "".join(
        f"{';'.join(s)} {before.counts.get(s, 0)} {after.counts.get(s, 0)}\n" for s in stacks
    )

"""`perfrunner compare A B`: B against A, where both are variants of one experiment, or two experiments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import options
from perfrunner.cli.report import (
    all_option,
    charts_option,
    format_option,
    hides,
    hosts_option,
    load,
    output_option,
    verbose_option,
    write_report,
)
from perfrunner.errors import UsageError
from perfrunner.spec.suggest import did_you_mean

if TYPE_CHECKING:
    from perfrunner.report import Report
    from perfrunner.results import ExperimentData, ResultStore


@click.command(
    "compare",
    epilog="\b\nExamples:\n  perfrunner compare glibc jemalloc            two variants of the latest experiment"
    "\n  perfrunner compare auto always -e metadata-thp   ... of a named one"
    "\n  perfrunner compare 20261120 20261121 --variant jemalloc"
    "\n\nTwo variants are compared within their blocks, with verdicts. Two experiments were not interleaved: they get"
    "\nonly Welch intervals, and a warning.",
)
@click.argument("a")
@click.argument("b")
@click.option(
    "-e", "--experiment", help="The experiment that A and B are variants of; default: the latest."
)
@click.option(
    "--variant", help="For two experiments: the variant to compare; default: the baseline of each."
)
@format_option
@charts_option
@options.out_option
@output_option
@all_option
@verbose_option
@hosts_option
def command(
    a: str,
    b: str,
    experiment: str | None,
    variant: str | None,
    fmt: str,
    charts_dir: Path | None,
    out_dir: Path,
    output: Path | None,
    every: bool,
    verbose: bool,
    with_hosts: bool,
) -> None:
    """Compare B against A: two variants of an experiment (or two build ids), or two experiments."""
    from perfrunner.results import ResultStore

    with ResultStore.open(out_dir, create=False) as store:
        hide = hides(fmt, with_hosts=with_hosts)
        report, data = _compare(store, a, b, experiment, variant, hide=hide)
    write_report(report, data, fmt, output, charts_dir, every=every, verbose=verbose)


def _compare(
    store: ResultStore, a: str, b: str, experiment: str | None, variant: str | None, *, hide: bool
) -> tuple[Report, ExperimentData]:
    from perfrunner.report import build_report

    data = load(store, experiment, hide=hide)
    arms = {name: _variant(data, name) for name in (a, b)}
    if all(arms.values()):
        if variant is not None:
            raise UsageError("--variant is for two experiments; these are two variants")
        if a == b or arms[a] == arms[b]:
            raise UsageError(f"{a} and {b} are the same variant")
        return build_report(_only(data, {str(arms[a]), str(arms[b])}), str(arms[a])), data
    if experiment is not None or any(arms.values()):
        wrong = b if arms[a] else a
        names = list(dict.fromkeys(t.variant for t in data.trials))
        raise UsageError(
            f"experiment {data.experiment.id} has no variant {wrong!r}{did_you_mean(wrong, names)}",
            f"its variants: {', '.join(names)}",
        )
    return _two_experiments(store, a, b, variant, hide=hide)


def _two_experiments(
    store: ResultStore, a: str, b: str, variant: str | None, *, hide: bool
) -> tuple[Report, ExperimentData]:
    from perfrunner.analysis import compare_unpaired
    from perfrunner.report import report_of

    first, second = (load(store, name, hide=hide) for name in (a, b))
    if first.experiment.id == second.experiment.id:
        raise UsageError(f"{a} and {b} are the same experiment {first.experiment.id}")
    arm_a, arm_b = (
        variant or str(d.experiment.spec_json.get("baseline", "")) for d in (first, second)
    )
    comparison = compare_unpaired(first, second, arm_a, arm_b)
    merged = replace(second, trials=(*first.trials, *second.trials))
    return report_of(merged, comparison), merged


def _variant(data: ExperimentData, name: str) -> str | None:
    """The variant of that name, or with that build id (or its start, if only one has it)."""
    variants = dict.fromkeys(t.variant for t in data.trials)
    if name in variants:
        return name
    built = {b.variant for b in data.builds if len(name) >= 6 and b.build_id.startswith(name)}
    return built.pop() if len(built) == 1 else None


def _only(data: ExperimentData, variants: set[str]) -> ExperimentData:
    """The experiment as if it had only these arms: fewer tests to correct for."""
    return replace(
        data,
        trials=tuple(t for t in data.trials if t.variant in variants),
        builds=tuple(b for b in data.builds if b.variant in variants),
        experiment=replace(
            data.experiment,
            spec_json={
                **data.experiment.spec_json,
                "variants": {
                    name: value
                    for name, value in (data.experiment.spec_json.get("variants") or {}).items()
                    if name in variants
                },
            },
        ),
    )

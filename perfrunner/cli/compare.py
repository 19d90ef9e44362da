"""`perfrunner compare A B`: B against A, where both are variants of one experiment, or two experiments."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.report import (
    all_option,
    charts_option,
    format_option,
    load,
    output_option,
    png_option,
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
    "\n  perfrunner compare 20261120 20261121 --variant jemalloc   ... of the runs of two days"
    "\n  perfrunner compare 3f9c2a7 91be04d               two builds, wherever they were measured"
    "\n\nTwo variants are compared within their blocks, with verdicts. Two experiments were not interleaved: they get"
    "\nonly Welch intervals, and a warning.",
)
@click.argument("a", shell_complete=complete.comparable)
@click.argument("b", shell_complete=complete.comparable)
@click.option(
    "-e",
    "--experiment",
    shell_complete=complete.experiments,
    help="The experiment that A and B are variants of; default: the latest.",
)
@click.option(
    "--variant", help="For two experiments: the variant to compare; default: the baseline of each."
)
@format_option
@charts_option
@png_option
@options.out_option
@output_option
@all_option
@verbose_option
@options.hosts_option
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
    png: bool,
) -> None:
    """Compare B against A: two variants of an experiment, or two experiments (ids, spec names, days) or builds."""

    with options.open_results(out_dir) as store:
        report, data = _compare(store, a, b, experiment, variant, hide=not with_hosts)
    write_report(
        report,
        data,
        fmt,
        output or (_page(data, a, b) if fmt == "html" else None),
        charts_dir,
        every=every,
        verbose=verbose,
        png=png,
    )


def _compare(
    store: ResultStore, a: str, b: str, experiment: str | None, variant: str | None, *, hide: bool
) -> tuple[Report, ExperimentData]:
    from perfrunner.report import build_report

    data = load(store, experiment, hide=hide)
    arms = {name: _variant(data, name) for name in (a, b)}
    by_build = not any(name in arms.values() for name in (a, b))
    if all(arms.values()):
        if variant is not None:
            raise UsageError("--variant is for two experiments; these are two variants")
        if a == b or arms[a] == arms[b]:
            raise UsageError(f"{a} and {b} are the same variant")
        return build_report(_only(data, {str(arms[a]), str(arms[b])}), str(arms[a])), data
    if experiment is not None or (any(arms.values()) and not by_build):
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
    from perfrunner.report.two_runs import of_two_runs

    (first, arm_a), (second, arm_b) = (_run_of(store, name, variant, hide=hide) for name in (a, b))
    if (first.experiment.id, arm_a) == (second.experiment.id, arm_b) or (
        first.experiment.id == second.experiment.id and variant is None
    ):
        raise UsageError(f"{a} and {b} are the same experiment {first.experiment.id}")
    comparison = compare_unpaired(first, second, arm_a, arm_b)
    words = ["perfrunner", "compare", a, b, *(["--variant", variant] if variant else [])]
    both = of_two_runs((first, arm_a), (second, arm_b), words)
    return report_of(both, comparison), both


def _run_of(
    store: ResultStore, name: str, variant: str | None, *, hide: bool
) -> tuple[ExperimentData, str]:
    """What a person means by an experiment, a date or a build id; and which of its variants."""
    try:
        record = store.resolve(name)
    except UsageError:
        if not (found := store.with_build(name)):
            raise
        experiment, built = found[-1]
        return load(store, experiment, hide=hide), variant or built
    return load(store, record.id, hide=hide), variant or str(record.spec_json.get("baseline", ""))


def _page(data: ExperimentData, a: str, b: str) -> Path:
    """Its own file: the experiment's report.html stays what it is."""
    words = re.sub(r"[^A-Za-z0-9._=+-]+", "-", f"compare-{a}-{b}")[:150]
    return Path(data.directory or ".") / data.experiment.id / f"{words}.html"


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

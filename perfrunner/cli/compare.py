"""`perfrunner compare A B`: compare two variants of an experiment, or two experiments."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.report import (
    ReportOptions,
    all_option,
    charts_option,
    format_option,
    load,
    output_option,
    png_option,
    verbose_option,
    write_report,
)
from perfrunner.cli.request import gathered
from perfrunner.errors import UsageError
from perfrunner.spec.suggest import did_you_mean

if TYPE_CHECKING:
    from perfrunner.report import Report
    from perfrunner.results import ExperimentData, ResultStore


@click.command(
    "compare",
    epilog="\b\nExamples:\n  perfrunner compare glibc jemalloc            two variants of the latest experiment"
    "\n  perfrunner compare auto always -e metadata-thp   two variants of a named experiment"
    "\n  perfrunner compare 20261120 20261121 --variant jemalloc   one variant in the runs of two days"
    "\n  perfrunner compare 3f9c2a7 91be04d               two builds of any experiments"
    "\n\nTwo variants of an experiment are compared within its blocks and get verdicts. Two experiments were not"
    "\ninterleaved, so they get Welch intervals and a warning, but no verdicts.",
)
@click.argument("a", shell_complete=complete.comparable)
@click.argument("b", shell_complete=complete.comparable)
@click.option(
    "-e",
    "--experiment",
    metavar="EXPERIMENT",
    shell_complete=complete.experiments,
    help="Experiment with the variants A and B (default: the latest).",
)
@click.option(
    "--variant",
    metavar="NAME",
    help="Variant to compare if A and B are experiments (default: the baseline of each).",
)
@format_option
@charts_option
@png_option
@options.out_option
@output_option
@all_option
@verbose_option
@options.hosts_option
@gathered(ReportOptions, "given")
def command(
    a: str, b: str, experiment: str | None, variant: str | None, given: ReportOptions
) -> None:
    """Compare B with A. Each is a variant, an experiment (id, spec name or day), or a build id."""
    with options.open_results(given.out_dir) as store:
        report, data = _compare(store, a, b, experiment, variant, hide=not given.with_hosts)
    if given.fmt == "html" and given.output is None:
        given = replace(given, output=_page(data, a, b))
    write_report(report, data, given)


def _compare(
    store: ResultStore, a: str, b: str, experiment: str | None, variant: str | None, *, hide: bool
) -> tuple[Report, ExperimentData]:
    from perfrunner.report import build_report

    data = load(store, experiment, hide=hide)
    variants = {name: _variant(data, name) for name in (a, b)}
    by_build = not any(name in variants.values() for name in (a, b))
    if all(variants.values()):
        if variant is not None:
            raise UsageError(
                "--variant can only be used to compare two experiments",
                f"leave it out: {a} and {b} are variants",
            )
        if a == b or variants[a] == variants[b]:
            raise UsageError(f"{a} and {b} are the same variant")
        return build_report(
            _only(data, {str(variants[a]), str(variants[b])}), str(variants[a])
        ), data
    if experiment is not None or (any(variants.values()) and not by_build):
        wrong = b if variants[a] else a
        names = list(dict.fromkeys(t.variant for t in data.trials))
        raise UsageError(
            f"experiment {data.experiment.id} has no variant {wrong!r}{did_you_mean(wrong, names)}",
            f"its variants: {', '.join(names)}",
        )
    return _two_experiments(store, a, b, variant, hide=hide)


def _two_experiments(
    store: ResultStore, a: str, b: str, variant: str | None, *, hide: bool
) -> tuple[Report, ExperimentData]:
    from perfrunner.analysis.compare import compare_unpaired
    from perfrunner.report import report_of
    from perfrunner.report.two_runs import of_two_runs

    (first, variant_a), (second, variant_b) = (
        _run_of(store, name, variant, hide=hide) for name in (a, b)
    )
    if (first.experiment.id, variant_a) == (second.experiment.id, variant_b) or (
        first.experiment.id == second.experiment.id and variant is None
    ):
        raise UsageError(f"{a} and {b} are the same experiment {first.experiment.id}")
    comparison = compare_unpaired(first, second, variant_a, variant_b)
    command_line = ["perfrunner", "compare", a, b, *(["--variant", variant] if variant else [])]
    both = of_two_runs((first, variant_a), (second, variant_b), command_line)
    return report_of(both, comparison), both


def _run_of(
    store: ResultStore, name: str, variant: str | None, *, hide: bool
) -> tuple[ExperimentData, str]:
    """Find the experiment and the variant of a name, which is an experiment, a day or a build id."""
    try:
        record = store.resolve(name)
    except UsageError:
        if not (matches := store.with_build(name)):
            raise
        experiment, built = matches[-1]
        return load(store, experiment, hide=hide), variant or built
    return load(store, record.id, hide=hide), variant or str(record.spec_json.get("baseline", ""))


def _page(data: ExperimentData, a: str, b: str) -> Path:
    """Return the path of the comparison's page, next to the experiment's report.html."""
    stem = re.sub(r"[^A-Za-z0-9._=+-]+", "-", f"compare-{a}-{b}")[:150]
    return Path(data.directory or ".") / data.experiment.id / f"{stem}.html"


def _variant(data: ExperimentData, name: str) -> str | None:
    """Return the variant with this name or build id (or unique start of one); None if there is no such variant."""
    variants = dict.fromkeys(t.variant for t in data.trials)
    if name in variants:
        return name
    built = {b.variant for b in data.builds if len(name) >= 6 and b.build_id.startswith(name)}
    return built.pop() if len(built) == 1 else None


def _only(data: ExperimentData, variants: set[str]) -> ExperimentData:
    """Restrict an experiment to some variants, so that fewer tests have to be corrected for."""
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

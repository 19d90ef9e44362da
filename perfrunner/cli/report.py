"""`perfrunner report` and `compare`: report an experiment, or two variants or experiments, in any format."""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.gate import gate
from perfrunner.cli.output import note, result, result_console
from perfrunner.cli.request import gathered
from perfrunner.errors import UsageError
from perfrunner.paths import PAGE
from perfrunner.text import count_of, readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfrunner.report import Report
    from perfrunner.results import ExperimentData, ResultStore

FORMATS = ("terminal", "markdown", "github-comment", "commit", "json", "html")

format_option = click.option(
    "--format",
    "fmt",
    type=click.Choice(FORMATS),
    default="terminal",
    show_default=True,
    help="Format of the report. html is written to --output (default: report.html, or compare-A-B.html, in the"
    " experiment's directory).",
)
charts_option = click.option(
    "--charts",
    "charts_dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also write the charts to DIR: SVG, and a PNG of those that summarize the report. With --all, include"
    " the metrics without a clear change.",
)
png_option = click.option("--png", is_flag=True, help="With --charts, write a PNG of every chart.")
output_option = click.option(
    "--output",
    "output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the report to FILE (default: stdout).",
)
all_option = click.option(
    "--all",
    "every",
    is_flag=True,
    help="Also show the metrics without a clear change. With --format commit, show the complete published tables.",
)


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also print the environment, the notes and the other metrics that changed (terminal only).",
)


@dataclass(frozen=True)
class ReportOptions:
    """The values of the options that `report` and `compare` share."""

    fmt: str
    charts_dir: Path | None
    png: bool
    out_dir: Path
    output: Path | None
    every: bool
    verbose: bool
    with_hosts: bool


@click.command(
    "report",
    epilog="\b\nExamples:\n  perfrunner report                                the latest experiment"
    "\n  perfrunner report quickstart --format markdown    for a pull request"
    "\n  perfrunner report --format github-comment         for scripts/post-comment"
    "\n  perfrunner report --format commit                 for a commit message"
    "\n  perfrunner report --format commit --all           with the published table for comparison"
    "\n  perfrunner report --format html --output r.html --charts charts/"
    "\n  perfrunner report cursors-to-drop --fail-on lost  check the expected gains"
    "\n  perfrunner report --format json | jq '.results[] | select(.primary)'",
)
@click.argument("experiment", required=False, shell_complete=complete.experiments)
@format_option
@charts_option
@png_option
@options.out_option
@output_option
@click.option(
    "--baseline",
    metavar="VARIANT",
    help="Compare with this variant (default: the spec's baseline).",
    shell_complete=complete.stored_variants,
)
@all_option
@verbose_option
@options.hosts_option
@options.fail_on_option
@click.pass_context
@gathered(ReportOptions, "given")
def command(
    ctx: click.Context,
    experiment: str | None,
    baseline: str | None,
    fail_on: str | None,
    given: ReportOptions,
) -> None:
    """Report EXPERIMENT: an id, the start of one, or a spec name (default: the latest)."""
    with _without_gc():
        from perfrunner.report import build_report
        from perfrunner.report.json_document import document

        with options.open_results(given.out_dir) as store:
            data = load(store, experiment, hide=not given.with_hosts)
        report = build_report(data, baseline)
        write_report(report, data, given)
        gate(ctx, document(report), fail_on)


@contextmanager
def _without_gc() -> Iterator[None]:
    """Turn off the garbage collector, which takes a fifth of the time of a report of 10 000 trials.

    A report keeps what it reads. Drawing charts leaves garbage and turns the collector on again
    (report.charts.share).
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def load(store: ResultStore, reference: str | None, *, hide: bool) -> ExperimentData:
    """Load the experiment of an id, the start of one, or a spec name; redact it if `hide`."""
    data = store.load(store.resolve(reference).id)
    if not hide:
        return data
    from perfrunner.report.redact import redacted

    return redacted(data)


def write_report(report: Report, data: ExperimentData, given: ReportOptions) -> None:
    """Write a report to stdout or to files; print the paths of files on stderr."""
    from perfrunner.report import render, write_charts, write_html
    from perfrunner.results.files import write_whole

    if given.fmt == "html":
        page = given.output or Path(data.directory or ".") / data.experiment.id / PAGE
        note(f"report {write_html(report, data, page)}")
    else:
        console = result_console() if given.fmt == "terminal" and given.output is None else None
        text = render(
            report,
            given.fmt,
            console=console,
            every=given.every,
            verbose=given.verbose,
            charts=given.charts_dir,
        )
        if given.output is None:
            result(text)
        else:
            note(f"report {write_whole(given.output, readable(text).encode())}")
    if given.charts_dir is not None:
        written, problems = write_charts(
            report, data, given.charts_dir, png=given.png, every=given.every
        )
        for problem in problems:
            note(f"warning: {problem}")
        note(f"charts {given.charts_dir} ({count_of(len(written), 'file')})")


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
def compare(
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
    from perfrunner.analysis.cases import no_variant
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
        raise no_variant(data.experiment.id, wrong, names)
    return _two_experiments(store, a, b, variant, hide=hide)


def _two_experiments(
    store: ResultStore, a: str, b: str, variant: str | None, *, hide: bool
) -> tuple[Report, ExperimentData]:
    from perfrunner.analysis.compare import compare_unpaired
    from perfrunner.report import build_report, report_of
    from perfrunner.report.two_runs import of_two_runs

    (first, variant_a), (second, variant_b) = (
        _run_of(store, name, variant, hide=hide) for name in (a, b)
    )
    if first.experiment.id == second.experiment.id:
        if variant_a == variant_b:
            raise UsageError(f"{a} and {b} are the same experiment {first.experiment.id}")
        # Two builds of one experiment, which need not be the latest.
        return build_report(_only(first, {variant_a, variant_b}), variant_a), first
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

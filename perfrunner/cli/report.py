"""`perfrunner report`: report an experiment as a table, a page or a document."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.gate import gate
from perfrunner.cli.output import note, result, result_console
from perfrunner.cli.request import gathered
from perfrunner.text import count_of, readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfrunner.report import Report
    from perfrunner.results import ExperimentData, ResultStore

FORMATS = ("terminal", "markdown", "github-comment", "commit", "json", "html")
PAGE = "report.html"

format_option = click.option(
    "--format",
    "fmt",
    type=click.Choice(FORMATS),
    default="terminal",
    show_default=True,
    help="Format of the report. html is written to --output (default: report.html in the experiment's directory).",
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

"""`perfrunner report`: what an experiment found, as a table, a page or a document."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfrunner.cli import complete, options
from perfrunner.cli.gate import gate
from perfrunner.cli.output import note, result, result_console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfrunner.report import Report
    from perfrunner.results import ExperimentData, ResultStore

FORMATS = ("terminal", "markdown", "commit", "json", "html")
PAGE = "report.html"

format_option = click.option(
    "--format",
    "fmt",
    type=click.Choice(FORMATS),
    default="terminal",
    show_default=True,
    help="How to write it. html is a file: --output, or report.html beside the trials.",
)
charts_option = click.option(
    "--charts",
    "charts_dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also write the charts to DIR as SVG, the comparison as PNG, too; with --all also those of other metrics.",
)
png_option = click.option("--png", is_flag=True, help="With --charts: every chart as PNG, too.")
output_option = click.option(
    "--output",
    "output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the report to FILE instead of stdout.",
)
all_option = click.option(
    "--all",
    "every",
    is_flag=True,
    help="Show also the metrics without a clear change; commit: the reference's whole tables.",
)


page_option = click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.md",
    help="Publish: keep EXPERIMENT's numbers beside this write-up and renew its tables, charts and index."
    " Without EXPERIMENT: from the numbers that are kept.",
)

verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="On a terminal also the facts, the notes and what else changed.",
)


@click.command(
    "report",
    epilog="\b\nExamples:\n  perfrunner report                                the latest experiment"
    "\n  perfrunner report quickstart --format markdown    for a pull request"
    "\n  perfrunner report --format commit                 for a commit message"
    "\n  perfrunner report --format commit --all           and the historic table beside ours"
    "\n  perfrunner report --format html --output r.html --charts charts/"
    "\n  perfrunner report cursors-to-drop --fail-on lost  is each known gain still there?"
    "\n  perfrunner report cursors-to-drop --page docs/experiments/cursors-to-drop.md"
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
    help="Compare against this variant instead.",
    shell_complete=complete.stored_variants,
)
@all_option
@verbose_option
@options.hosts_option
@options.fail_on_option
@page_option
@click.option(
    "--add", is_flag=True, help="With --page: beside the kept experiments of other cells."
)
@click.pass_context
def command(
    ctx: click.Context,
    experiment: str | None,
    fmt: str,
    charts_dir: Path | None,
    out_dir: Path,
    output: Path | None,
    baseline: str | None,
    every: bool,
    verbose: bool,
    with_hosts: bool,
    fail_on: str | None,
    page: Path | None,
    add: bool,
    png: bool,
) -> None:
    """Report an EXPERIMENT: an id, the start of one, or a spec's name; default is the latest."""
    with _keeping_all():
        from perfrunner.report import build_report
        from perfrunner.report.json_document import document

        if page is not None and experiment is None:
            _publish(page)
            return
        with options.open_results(out_dir) as store:
            data = load(store, experiment, hide=not with_hosts)
        if page is not None:
            _publish(page, data, add=add)
            return
        report = build_report(data, baseline)
        write_report(report, data, fmt, output, charts_dir, every=every, verbose=verbose, png=png)
        gate(ctx, document(report), fail_on)


@contextmanager
def _keeping_all() -> Iterator[None]:
    """No search for garbage: a report keeps what it reads, and to search ten thousand trials is a fifth of its time.

    Charts, which leave garbage, are drawn with it (report.charts.share).
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def load(store: ResultStore, reference: str | None, *, hide: bool) -> ExperimentData:
    """The experiment that a person means, with what is not to be passed on left out if `hide`."""
    data = store.load(store.resolve(reference).id)
    if not hide:
        return data
    from perfrunner.report.redact import redacted

    return redacted(data)


def _publish(page: Path, data: ExperimentData | None = None, *, add: bool = False) -> None:
    from perfrunner.report.publish import publish

    for path in publish(page, data, add=add):
        note(f"wrote {path}")


def write_report(
    report: Report,
    data: ExperimentData,
    fmt: str,
    output: Path | None,
    charts_dir: Path | None,
    *,
    every: bool,
    verbose: bool,
    png: bool,
) -> None:
    """To stdout, or to files whose paths are told on stderr."""
    from perfrunner.report import render, write_charts, write_html
    from perfrunner.report.files import write_whole

    if fmt == "html":
        page = output or Path(data.directory or ".") / data.experiment.id / PAGE
        note(f"report {write_html(report, data, page)}")
    else:
        console = result_console() if fmt == "terminal" and output is None else None
        text = render(report, fmt, console=console, every=every, verbose=verbose, charts=charts_dir)
        if output is None:
            result(text)
        else:
            note(f"report {write_whole(output, text.encode())}")
    if charts_dir is not None:
        written, problems = write_charts(report, data, charts_dir, png=png, every=every)
        for problem in problems:
            note(f"warning: {problem}")
        note(f"charts {charts_dir} ({len(written)} files)")

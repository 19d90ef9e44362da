"""Render a report as text, and write its charts and its HTML page to files. Files are written atomically."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.errors import UsageError
from perfrunner.report.commit import commit_text
from perfrunner.report.json_document import json_text
from perfrunner.report.markdown import comment_text, markdown_text
from perfrunner.report.terminal import terminal_text
from perfrunner.results.files import write_whole
from perfrunner.text import readable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData
    from perfrunner.results.raw import RawSeries


def render(
    report: Report,
    fmt: str,
    *,
    console: Console | None = None,
    every: bool = False,
    verbose: bool = False,
    charts: Path | None = None,
) -> str:
    """Return the report as text.

    `console` sets the width and colours of the terminal format. `every` includes metrics without a
    change (terminal and Markdown; JSON and HTML always have all), and in the commit format all published
    tables. `verbose` adds facts and notes on a terminal. `charts` is the directory of the drawn charts:
    Markdown names the one to attach. Raises UsageError for an unknown format.
    """
    if fmt == "terminal":
        return terminal_text(report, console, every=every, verbose=verbose)
    if fmt == "markdown":
        return markdown_text(report, every=every, charts=charts)
    if fmt == "github-comment":
        return comment_text(report, every=every)
    if fmt == "commit":
        return commit_text(report, every=every)
    if fmt == "json":
        return json_text(report)
    raise UsageError(
        f"unknown report format {fmt!r}",
        "use terminal, markdown, github-comment, commit or json; write_html makes pages",
    )


# Charts that a page has as pictures for readers without scripts; its comparison chart is HTML.
STATIC = ("published", "trials", "fragmentation", "heap", "series")


def read_raw(report: Report, data: ExperimentData) -> RawSeries:
    """Return the raw series of a report's cases; empty for two experiments, where one series would mislead."""
    from perfrunner.analysis.cases import counted_trials
    from perfrunner.results.raw import RawSeries, read_series

    if not report.comparison.paired:
        return RawSeries()
    return read_series(data, counted_trials(data.trials, report.comparison.cases))


def write_charts(
    report: Report, data: ExperimentData, directory: Path, *, png: bool = False, every: bool = False
) -> tuple[list[Path], list[str]]:
    """Write the main charts (`every`: all) as NAME.svg, and the one to attach (`png`: all) also as NAME.png.

    Returns the paths, and notes on charts that could not be drawn.
    """
    from perfrunner.report.charts import draw_charts, main_charts

    raw = read_raw(report, data)
    charts = draw_charts(report, data, raw, png=png or main_charts(report), every=every)
    written: list[Path] = []
    for chart in charts:
        for suffix, content in ((".svg", chart.svg), (".png", chart.png)):
            if content is not None:
                written.append(write_whole(directory / f"{chart.name}{suffix}", content))
    return written, list(raw.notes)


def write_html(report: Report, data: ExperimentData, path: Path) -> Path:
    """Write the report as one self-contained page, and return its path."""
    from perfrunner.report.charts import draw_charts
    from perfrunner.report.page import html_text

    raw = read_raw(report, data)
    charts = draw_charts(report, data, raw, names=STATIC)
    text = readable(html_text(report, data, raw, charts, path))
    return write_whole(path, text.encode())

"""Render a report in one of its formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.errors import UsageError
from perfrunner.report.commit import commit_text
from perfrunner.report.json_document import json_text
from perfrunner.report.markdown import comment_text, markdown_text
from perfrunner.report.terminal import terminal_text

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from perfrunner.report.model import Report


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

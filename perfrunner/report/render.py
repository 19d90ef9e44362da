"""One report, five formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.errors import UsageError
from perfrunner.report.commit import commit_text
from perfrunner.report.json_document import json_text
from perfrunner.report.markdown import markdown_text
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
    """The report as text.

    `console` gives the width and the colours of the terminal format. `every` shows the metrics
    without a change too (markdown and terminal; JSON and HTML always hold all), in the commit format the
    whole tables of the spec's reference; `verbose` on a terminal the facts and notes. `charts` is where the
    charts are drawn: Markdown names the one to attach.
    """
    if fmt == "terminal":
        return terminal_text(report, console, every=every, verbose=verbose)
    if fmt == "markdown":
        return markdown_text(report, every=every, charts=charts)
    if fmt == "commit":
        return commit_text(report, every=every)
    if fmt == "json":
        return json_text(report)
    if fmt == "html":
        raise UsageError("an HTML report needs the trials for its charts", "use write_html")
    raise UsageError(f"no report format {fmt!r}")

"""Render the section *Published values* for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfrunner.report.names import folded
from perfrunner.report.published import counts_text, published_texts, reference_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from perfrunner.report.model import Report

STYLES = {"✔": "bold green", "✘": "bold red", "?": "yellow"}


def published_section(report: Report, label: int) -> Iterable[RenderableType]:
    """Yield the section; nothing without published values. `label`: maximum columns of a label."""
    if not report.published_lines:
        return
    yield Text(f"\nPublished values: {counts_text(report)}", style="bold")
    for name, text in reference_facts(report):
        yield Padding(Text(f"{name}: {text}", style="dim"), (0, 0, 0, 2))
    for title, lines in published_texts(report).items():
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column(escape(folded(title, label)), no_wrap=True)
        for heading in ("variant", "published", "measured", "agreement"):
            table.add_column(heading, overflow="fold")
        for line in lines:
            word = Text(line.agreement, style=STYLES.get(line.agreement[:1], ""))
            if line.why:
                word.append(f"\n{line.why}", style="dim")
            table.add_row(
                Text(folded(line.label, label)),
                Text(line.variant),
                Text(f"{line.theirs}\n{line.their_change}".rstrip()),
                Text(f"{line.ours}\n{line.our_change}".rstrip()),
                word,
            )
        yield Text()
        yield table

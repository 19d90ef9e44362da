"""The section *beside the reference* on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfrunner.report.beside import beside_texts, counts_text, reference_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from perfrunner.report.model import Report

STYLES = {"✔": "bold green", "✘": "bold red", "?": "yellow"}


def beside_section(report: Report) -> Iterable[RenderableType]:
    """Nothing without a reference."""
    if not report.beside:
        return
    yield Text(f"\nbeside the reference: {counts_text(report)}", style="bold")
    for label, text in reference_facts(report):
        yield Padding(Text(f"{label}: {text}", style="dim"), (0, 0, 0, 2))
    for title, lines in beside_texts(report).items():
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for name in (escape(title), "variant", "theirs", "ours", "agree?"):
            table.add_column(name, overflow="fold")
        for line in lines:
            word = Text(line.agreement, style=STYLES.get(line.agreement[:1], ""))
            if line.why:
                word.append(f"\n{line.why}", style="dim")
            table.add_row(
                Text(line.label),
                Text(line.variant),
                Text(f"{line.theirs}\n{line.their_change}".rstrip()),
                Text(f"{line.ours}\n{line.our_change}".rstrip()),
                word,
            )
        yield Text()
        yield table

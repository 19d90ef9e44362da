"""The section *beside the reference* as Markdown, and names as plain text in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.report.beside import beside_texts, counts_text, reference_facts
from perfrunner.report.numbers import minus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.report.model import Report


def beside_section(report: Report) -> Iterable[str]:
    """Nothing without a reference."""
    if not report.beside:
        return
    yield f"<details><summary>Beside the reference: {counts_text(report)}</summary>"
    yield ""
    for label, text in reference_facts(report):
        yield f"- {plain(label)}: {plain(text)}"
    yield ""
    yield from beside_tables(report)
    yield "</details>"
    yield ""


def beside_tables(report: Report) -> Iterable[str]:
    """Every reference table with ours beside it."""
    for title, lines in beside_texts(report).items():
        yield f"| {plain(title)} | variant | theirs | ours | their change | our change [95 %] | |"
        yield "|:--|:--|--:|--:|--:|--:|:--|"
        for line in lines:
            word = ": ".join(text for text in (line.agreement, line.why) if text)
            cells = (plain(line.label), plain(line.variant), line.theirs, line.ours,
                     line.their_change, line.our_change, word)  # fmt: skip
            yield "| " + " | ".join(cells) + " |"
        yield ""


def plain(text: str) -> str:
    """Names and reasons must not become markup."""
    for mark in ("\\", "|", "*", "_", "`", "<", "[", "#"):
        text = text.replace(mark, f"\\{mark}")
    return minus(text) if text.startswith("-") else text.replace("\n", " ")

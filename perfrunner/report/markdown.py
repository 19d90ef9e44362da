"""The report as Markdown: for a pull request, an issue or a page of docs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.report.beside import beside_texts, counts_text, reference_facts
from perfrunner.report.numbers import (
    ARROWS,
    change,
    minus,
    more_text,
    p_text,
    scale_for,
    scale_of,
    significant,
    spread,
    verdict_text,
)
from perfrunner.report.selection import selected

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.analysis import Cell, Row
    from perfrunner.report.model import Report
    from perfrunner.report.numbers import Scale

HEADER = (
    "metric",
    "variant",
    "n",
    "mean ± 95 %",
    "CV",
    "min … max",
    "change [95 %]",
    "q",
    "verdict",
)


def markdown_text(report: Report, *, every: bool) -> str:
    """GitHub-flavoured."""
    return "\n".join(_lines(report, every=every)).rstrip() + "\n"


def _lines(report: Report, *, every: bool) -> Iterable[str]:
    yield f"## {plain(report.experiment.name)}"
    yield ""
    for sentence in report.headline:
        yield f"- **{plain(sentence)}**"
    yield ""
    for warning in report.warnings:
        yield f"> ⚠ {plain(warning)}"
        yield ">"
    if report.warnings:
        yield ""
    for cell in report.comparison.cells:
        yield from _cell(report, cell, every=every)
    yield (
        "★ primary, ↑ higher is better, ↓ lower. Change against "
        f"`{report.comparison.baseline}`, paired by block, with its 95 % interval; q is p corrected "
        f"by Benjamini-Hochberg ({report.comparison.tests} tests). k, M are 1000."
    )
    yield ""
    if report.beside:
        yield f"### Beside the reference: {counts_text(report)}"
        yield ""
        for label, text in reference_facts(report):
            yield f"- {plain(label)}: {plain(text)}"
        yield ""
        yield from beside_tables(report)
    if report.moved:
        yield "**What moved with it** (clearest first)"
        yield ""
        for moved in report.moved:
            changes = [
                f"`{r.metric.id}` {change(r.effect, r.metric, scale_of(r.metric, r.summary.mean))}"
                for r in moved.rows
                if r.effect is not None
            ]
            yield f"- {plain(moved.variant)} · {plain(str(moved.cell))}: {'; '.join(changes)}"
        yield ""
    if report.method:
        yield "**How it was measured**"
        yield ""
        for fact in report.method:
            yield f"- {plain(fact.label)}: {plain(fact.value)}"
        yield ""
    yield from _folded("Not the same for all arms", report.differing)
    yield from _folded("Notes", report.notes)
    voids = [
        f"block {v.block}, {v.cell}, {v.variant}: {v.status}: {v.reason}"
        for v in report.comparison.voids
    ]
    yield from _folded("Void trials", voids)
    facts = [f"{fact.label}: {fact.value}" for fact in report.context]
    facts += [f"build of {b.variant}: {b.build_id}" for b in report.builds]
    yield from _folded("Circumstances", facts)
    yield f"Reproduce: `{report.reproduce}`"


def _cell(report: Report, cell: Cell, *, every: bool) -> Iterable[str]:
    groups, left_out = selected(report, cell, every=every)
    yield f"### {plain(str(cell))}"
    yield ""
    if not groups:
        yield "No trial counts."
        yield ""
        return
    yield "| " + " | ".join(HEADER) + " |"
    yield "|:--|:--|--:|--:|--:|--:|--:|--:|:--|"
    for rows in groups.values():
        for index, row in enumerate(rows):
            yield "| " + " | ".join(_columns(row, scale_for(row, rows), first=index == 0)) + " |"
    yield ""
    if left_out:
        yield f"{left_out} metrics without a clear change are not shown."
        yield ""


def _columns(row: Row, scale: Scale, *, first: bool) -> tuple[str, ...]:
    metric, summary, effect = row.metric, row.summary, row.effect
    name = f"`{metric.id}` {ARROWS[metric.direction]}{' ★' if row.primary else ''}" if first else ""
    extremes = f"{scale.number(summary.minimum)} … {scale.number(summary.maximum)}"
    return (
        name,
        plain(row.variant),
        str(summary.n),
        f"{scale.text(summary.mean)} {spread(summary, metric, scale)}",
        "" if summary.cv is None else f"{significant(100 * summary.cv, 2)} %",
        extremes,
        "" if effect is None else change(effect, metric, scale),
        "" if effect is None or effect.q is None else p_text("", effect.q).lstrip("="),
        plain(", ".join(t for t in (verdict_text(row), more_text(row), row.reason) if t)),
    )


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


def _folded(title: str, lines: Iterable[str]) -> Iterable[str]:
    found = list(lines)
    if not found:
        return
    yield f"<details><summary>{title} ({len(found)})</summary>"
    yield ""
    for line in found:
        yield f"- {plain(line)}"
    yield ""
    yield "</details>"
    yield ""


def plain(text: str) -> str:
    """Names and reasons must not become markup."""
    for mark in ("\\", "|", "*", "_", "`", "<", "[", "#"):
        text = text.replace(mark, f"\\{mark}")
    return minus(text) if text.startswith("-") else text.replace("\n", " ")

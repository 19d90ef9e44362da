"""The report as Markdown: for a pull request, an issue or a page of docs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.report.beside_markdown import beside_section
from perfrunner.report.beside_markdown import plain as _plain
from perfrunner.report.numbers import (
    ARROWS,
    change,
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
    yield f"## {_plain(report.experiment.name)}"
    yield ""
    for sentence in report.headline:
        yield f"- **{_plain(sentence)}**"
    yield ""
    for warning in report.warnings:
        yield f"> ⚠ {_plain(warning)}"
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
    yield from beside_section(report)
    if report.moved:
        yield "**What moved with it** (clearest first)"
        yield ""
        for moved in report.moved:
            changes = [
                f"`{r.metric.id}` {change(r.effect, r.metric, scale_of(r.metric, r.summary.mean))}"
                for r in moved.rows
                if r.effect is not None
            ]
            yield f"- {_plain(moved.variant)} · {_plain(str(moved.cell))}: {'; '.join(changes)}"
        yield ""
    for title, lines in (
        ("What was built", report.sources),
        ("How it was measured", report.method),
    ):
        if lines:
            yield f"**{title}**"
            yield ""
            for fact in lines:
                yield f"- {_plain(fact.label)}: {_plain(fact.value)}"
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
    yield f"### {_plain(str(cell))}"
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
        _plain(row.variant),
        str(summary.n),
        f"{scale.text(summary.mean)} {spread(summary, metric, scale)}",
        "" if summary.cv is None else f"{significant(100 * summary.cv, 2)} %",
        extremes,
        "" if effect is None else change(effect, metric, scale),
        "" if effect is None or effect.q is None else p_text("", effect.q).lstrip("="),
        _plain(", ".join(t for t in (verdict_text(row), more_text(row), row.reason) if t)),
    )


def _folded(title: str, lines: Iterable[str]) -> Iterable[str]:
    found = list(lines)
    if not found:
        return
    yield f"<details><summary>{title} ({len(found)})</summary>"
    yield ""
    for line in found:
        yield f"- {_plain(line)}"
    yield ""
    yield "</details>"
    yield ""

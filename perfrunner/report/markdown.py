"""The report as Markdown, for a pull request: sentences, one small table, and the rest folded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.report.beside_markdown import beside_section
from perfrunner.report.beside_markdown import plain as _plain
from perfrunner.report.names import main_charts
from perfrunner.report.numbers import (
    ARROWS,
    change,
    mean_text,
    more_text,
    p_text,
    scale_for,
    scale_of,
    significant,
    spread,
    verdict_text,
)
from perfrunner.report.profiles import ONE_SAMPLE, both_taken, shares, short_name
from perfrunner.report.redact import hidden
from perfrunner.report.selection import primary_rows, selected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

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


def markdown_text(report: Report, *, every: bool, charts: Path | None = None) -> str:
    """GitHub-flavoured. `charts`: the directory where the charts are drawn, if they are."""
    lines = [*_lines(report, every=every), *_chart(report, charts)]
    return "\n".join([*lines, f"Reproduce: `{report.reproduce}`"]).rstrip() + "\n"


def _lines(report: Report, *, every: bool) -> Iterable[str]:
    yield f"## {_plain(report.experiment.name)}"
    yield ""
    if report.preface:
        yield f"**{_plain(report.preface)}**"
        yield ""
    for sentence in report.sentences:
        clauses = "; ".join(
            _plain(c.text) + (f", **{_plain(c.word)}**" if c.word else "") for c in sentence.clauses
        )
        yield f"- **{_plain(sentence.variant)}**{_plain(sentence.lead)}: {clauses}."
    yield ""
    for warning in report.warnings:
        yield f"> ⚠ {_plain(warning)}"
        yield ">"
    if report.warnings:
        yield ""
    yield from _summary(report)
    yield "<details><summary>Every metric that matters, with spread and tests</summary>"
    yield ""
    for cell in report.comparison.cells:
        yield from _cell(report, cell, every=every)
    yield (
        "★ primary, ↑ higher is better, ↓ lower. Change against "
        f"`{report.comparison.baseline}`, paired by block, with its 95 % interval; q is p corrected "
        f"by Benjamini-Hochberg ({report.comparison.tests} tests). k, M are 1000."
    )
    yield ""
    yield "</details>"
    yield ""
    yield from beside_section(report)
    moved = [
        f"{moved.variant} · {moved.cell}: "
        + "; ".join(
            f"{r.metric.id} {change(r.effect, r.metric, scale_of(r.metric, r.summary.mean))}"
            for r in moved.rows
            if r.effect is not None
        )
        for moved in report.moved
    ]
    yield from _folded("What moved with it, the clearest first", moved)
    yield from _profiles(report)
    yield from _folded("What was built", [f"{f.label}: {f.value}" for f in report.sources])
    yield from _folded("How it was measured", [f"{f.label}: {f.value}" for f in report.method])
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


def _chart(report: Report, charts: Path | None) -> Iterable[str]:
    """Which file to attach: pictures cannot be a part of what is pasted."""
    for name in (f"{chart}.png" for chart in main_charts(report)):
        if charts is not None:
            yield f"Chart to attach: `{hidden(str(charts / name))}`"
        else:
            yield f"Chart to attach: `charts/{name}`, which `--charts charts` draws"
        yield ""


def _summary(report: Report) -> Iterable[str]:
    """The primary metrics: a line a metric and cell, a column an arm."""
    baseline, *arms = report.comparison.variants
    lines = []
    for metric, cells in primary_rows(report).items():
        for cell, rows in cells.items():
            found = {row.variant: row for row in rows}
            first = rows[0]
            name = f"`{metric}` {ARROWS[first.metric.direction]}"
            if len(report.comparison.cells) > 1:
                name += f" {_plain(str(cell))}"
            base = found.get(baseline)
            mean = "" if base is None else mean_text(base.summary, scale_for(base, rows))
            changes = (_change(found.get(arm), rows) for arm in arms)
            lines.append(f"| {' | '.join((name, mean, *changes))} |")
    if not lines:
        return
    yield f"| | {' | '.join(_plain(v) for v in (baseline, *arms))} |"
    yield f"|:--|{'--:|' * (1 + len(arms))}"
    yield from lines
    yield ""


def _change(row: Row | None, rows: Sequence[Row]) -> str:
    if row is None:
        return ""
    if row.effect is None:
        return _plain(row.reason or mean_text(row.summary, scale_for(row, rows)))
    return f"{change(row.effect, row.metric, scale_for(row, rows))} {_plain(verdict_text(row))}"


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
    extremes = scale.span(summary.minimum, summary.maximum)
    return (
        name,
        _plain(row.variant),
        str(summary.n),
        f"{mean_text(summary, scale)} {spread(summary, metric, scale)}",
        "" if summary.cv is None else f"{significant(100 * summary.cv, 2)} %",
        extremes,
        "" if effect is None else change(effect, metric, scale),
        "" if effect is None or effect.q is None else p_text("", effect.q).lstrip("="),
        _plain(", ".join(t for t in (verdict_text(row), more_text(row), row.reason) if t)),
    )


def _profiles(report: Report) -> Iterable[str]:
    """A table of functions for each arm and profiled cell."""
    arms = [arm for cell in report.profiles for arm in cell.arms if arm.moved]
    if not arms:
        return
    yield f"<details><summary>Profiles: the functions whose own share moved most ({len(arms)})</summary>"
    yield ""
    for arm in arms:
        name, against = _plain(arm.arm.taken.variant), _plain(arm.base.taken.variant)
        yield f"{_plain(str(arm.cell))}; {_plain(both_taken(arm))}."
        yield ""
        yield f"| function | {against} | {name} | points |"
        yield "|:--|--:|--:|--:|"
        for share in arm.moved:
            yield f"| {_plain(short_name(share.function))} | {' | '.join(shares(share))} |"
        yield ""
    yield ONE_SAMPLE
    yield ""
    yield "</details>"
    yield ""


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

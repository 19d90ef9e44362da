"""Render a report for a commit message: plain ASCII, at most 72 columns wide.

It shows only the primary metrics: n, mean, half-width of the interval, change with its interval, and
verdict; then the build ids and the command that reproduces the run.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from perfrunner.report.environment import definition, short_build_id
from perfrunner.report.method import method_line
from perfrunner.report.numbers import change, scale_for, significant
from perfrunner.report.published import WIDTH, commit_published
from perfrunner.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.analysis.model import Row
    from perfrunner.domain import Case
    from perfrunner.report.model import Report
    from perfrunner.report.numbers import Scale

NAME = 18
ASCII = str.maketrans({
    "\N{MINUS SIGN}": "-", "\N{MULTIPLICATION SIGN}": "x", "\N{DIVISION SIGN}": "1/",
    "±": "+/-", "µ": "u", "·": "/", "…": "...",
    "★": "*", "↑": "", "↓": "",
})  # fmt: skip


def commit_text(report: Report, *, every: bool = False) -> str:
    """Return the report in lines of at most 72 columns. `every`: include all published tables."""
    lines: list[str] = []
    if all(row.verdict is None for row in report.comparison.rows):
        for sentence in report.headline[:1]:
            lines += textwrap.wrap(sentence, WIDTH, break_on_hyphens=False)
        lines.append("")
    for case in report.comparison.cases:
        for rows in _shown(report, case):
            lines += [*_block(case, rows), ""]
    if every:
        lines += commit_published(report)
    for warning in report.warnings:
        lines += textwrap.wrap(f"note: {warning}", WIDTH, subsequent_indent="  ")
    lines += _builds(report)
    blocks = report.comparison.blocks
    lines += textwrap.wrap(
        f"seed {report.experiment.seed}, {count_of(blocks, 'block')}, "
        f"{report.counts.discarded + report.counts.failed} trials discarded or failed, 95 % intervals (t, paired "
        "by block)",
        WIDTH,
    )
    if report.methods:
        lines += textwrap.wrap(method_line(report.methods), WIDTH, subsequent_indent="  ")
    lines.append("Reproduce:")
    lines += textwrap.wrap(
        report.reproduce,
        WIDTH - 2,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
    )
    return "\n".join(line.translate(ASCII).rstrip() for line in lines) + "\n"


def _shown(report: Report, case: Case) -> list[list[Row]]:
    groups = list(report.rows(case).values())
    disagrees = any(row.cpu for rows in groups for row in rows)
    shown = [r for r in groups if r[0].primary or (r[0].companion and disagrees)]
    return shown or groups[:1]


def _block(case: Case, rows: list[Row]) -> Iterable[str]:
    metric = rows[0].metric
    better = {"higher": ", higher is better", "lower": ", lower is better", "none": ""}
    unit = {"us": "us", "B": "B"}.get(metric.unit, metric.unit)
    heading = f"{case}: {metric.id} ({unit}{better[metric.direction]})"
    yield from textwrap.wrap(heading, WIDTH, subsequent_indent="  ")
    yield f"{'':{NAME}} {'n':>3} {'mean':>11} {'+/-':>7}  change [95 %]"
    for row in rows:
        yield from _line(row, scale_for(row, rows))


def _line(row: Row, scale: Scale) -> Iterable[str]:
    name = row.variant
    if len(name) > NAME:
        yield name
        name = ""
    summary = row.summary
    yield from _joined(
        f"{name:{NAME}} {summary.n:>3} {_mean(row):>11} {_spread(row):>7}", _end(row, scale)
    )


def _end(row: Row, scale: Scale) -> list[str]:
    if row.effect is None:
        return [row.reason] if row.reason else []
    word = f"{row.verdict or ''}{row.qualifier}".strip()
    return [change(row.effect, row.metric, scale).replace(" %", "%"), word]


def _joined(text: str, parts: list[str]) -> Iterable[str]:
    """Append the parts to the text, on further lines if they do not fit."""
    gap = "  "
    for part in filter(None, parts):
        plain = part.translate(ASCII)
        if len(text) + len(gap) + len(plain) <= WIDTH:
            text += gap + plain
        else:
            yield text
            text = f"{'':{NAME}} {plain}"
        gap = " "
    yield text


def _mean(row: Row) -> str:
    """Return the mean in the plain unit, as the historic tables do: 1,831,406."""
    mean = row.summary.mean
    return f"{mean:,.0f}" if abs(mean) >= 10_000 else significant(mean)


def _spread(row: Row) -> str:
    half = row.summary.half_width
    if half is None:
        return "?"
    if row.metric.effect == "ratio" and row.summary.mean:
        return f"{significant(100 * half / abs(row.summary.mean), 2)}%"
    return significant(half, 2)


def _builds(report: Report) -> Iterable[str]:
    defined = report.experiment.spec_json.get("variants") or {}
    for build in report.builds:
        settings = defined.get(build.variant)
        described = f": {definition(settings)}" if isinstance(settings, dict) else ""
        line = f"build {short_build_id(build)}  {build.variant}{described}"
        yield from textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    for fact in report.sources:
        if fact.label.startswith(("commit", "files")):
            continue  # readers of a commit message have git log and git diff
        line = f"{fact.label}: {fact.value}"
        yield from textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)

"""Render a report as Markdown for a pull request: sentences, one small table, and folded details."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perfrunner.report.account import TITLE, account_lines
from perfrunner.report.explain import changed_text
from perfrunner.report.model import primary_rows, selected
from perfrunner.report.numbers import (
    ARROWS,
    change,
    mean_text,
    more_text,
    p_text,
    scale_for,
    significant,
    spread,
    verdict_text,
)
from perfrunner.report.published import plain as _plain
from perfrunner.report.published import published_section
from perfrunner.report.redact import hidden
from perfrunner.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from perfrunner.analysis.model import Row
    from perfrunner.domain import Case
    from perfrunner.report.model import Report
    from perfrunner.report.numbers import Scale

MOST_FUNCTIONS = 10  # functions shown of an explanation
MOST_CHARACTERS = 65_000  # of a comment; GitHub takes 65 536
_DETAILS = re.compile(r"<details>.*?</details>\n\n?", re.DOTALL)
# Forges notify persons, and list the comment at issues and requests that it names, also behind a backslash. In code,
# they do neither.
_MENTION = re.compile(r"(?<![\\`])(`+)(?!`)[^\n]*?(?<!`)\1(?!`)|@(?=\w)|[#!](?=\d)|\bGH-(?=\d)")

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
    """Return the report in GitHub-flavoured Markdown. `charts`: the directory of the drawn charts, if any."""
    lines = [*_lines(report, every=every), *_chart(report, charts)]
    return "\n".join([*lines, f"Reproduce: {_code(report.reproduce)}"]).rstrip() + "\n"


def comment_text(report: Report, *, every: bool) -> str:
    """Return the report as one comment of a pull request.

    The first line is invisible; a script that updates the comment finds it by that line (scripts/post-comment).
    Details are left out, the longest first, until the comment fits.
    """
    name = report.experiment.name
    # The name of an `ab` contains its revisions, which change while a pull request is worked on.
    marker = f"<!-- perfrunner: {'ab' if name.startswith('ab-') else re.sub('-+', '-', name)} -->"
    last = f"Reproduce: {_code(report.reproduce)}\n"
    body = "\n".join([marker, *_lines(report, every=every), ""])
    text = _MENTION.sub(lambda m: m[0] if m[1] else f"{m[0]}<!-- -->", body)
    sections = _DETAILS.findall(text)
    room = MOST_CHARACTERS - len(last) - 200  # for the sentence on what is left out
    dropped = 0
    for section in sorted(sections, key=len, reverse=True):
        if len(text) <= room:
            break
        text, dropped = text.replace(section, "", 1), dropped + 1
    if dropped:
        count = "1 section of details is" if dropped == 1 else f"{dropped} sections of details are"
        last = f"{count} left out: `perfrunner report` has everything.\n\n{last}"
    if len(text) > room:
        text = f"{text[:room].rpartition(chr(10))[0]}\n\n(the rest is left out)\n\n"
    return text + last


def _code(text: str) -> str:
    """Return a code span, between more backticks than the text has in one place."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("\n", " ")


def _cell(text: str) -> str:
    """Return a code span for a table, whose cells end at any `|`."""
    return _code(text).replace("|", "\\|")


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
    yield "<details><summary>Results: relevant metrics, with spread and tests</summary>"
    yield ""
    for case in report.comparison.cases:
        yield from _case(report, case, every=every)
    paired = ", paired by block" if report.comparison.paired else ""
    yield (
        "★ primary, ↑ higher is better, ↓ lower. Change against "
        f"{_code(report.comparison.baseline)}{paired}, with its 95 % interval; q is p corrected "
        f"by Benjamini-Hochberg ({report.comparison.tests} tests). k, M are 1000."
    )
    yield ""
    yield "</details>"
    yield ""
    yield from published_section(report)
    yield from _folded("Other metrics that changed, most significant first", report.moved)
    yield from _folded(TITLE, account_lines(report.comparison.accounts))
    yield from _folded(
        "Functions whose CPU time per operation changed",
        [changed_text(pair, MOST_FUNCTIONS) for pair in report.explanations],
    )
    yield from _folded("Sources", report.sources)
    yield from _folded("Method", report.method)
    yield from _folded("Differences between builds", report.differing)
    yield from _folded("Notes", report.notes)
    yield from _folded("Discarded trials", report.discarded)
    builds = (f"build of {build.variant}: {build.build_id}" for build in report.builds)
    yield from _folded("Environment", [*report.context, *builds])


def _chart(report: Report, charts: Path | None) -> Iterable[str]:
    """Name the chart files to attach: pasted Markdown cannot contain pictures."""
    from perfrunner.report.charts import main_charts

    for name in (f"{chart}.png" for chart in main_charts(report)):
        if charts is not None:
            yield f"Chart to attach: {_code(hidden(str(charts / name)))}"
        else:
            yield f"Chart to attach: `charts/{name}` (draw it with `--charts charts`)"
        yield ""


def _summary(report: Report) -> Iterable[str]:
    """Yield the table of primary metrics: a line per metric and case, a column per variant."""
    baseline, *variants = report.comparison.variants
    lines = []
    for metric, cases in primary_rows(report).items():
        for case, rows in cases.items():
            by_variant = {row.variant: row for row in rows}
            first = rows[0]
            name = f"{_cell(metric)} {ARROWS[first.metric.direction]}"
            if len(report.comparison.cases) > 1:
                name += f" {_plain(str(case))}"
            base = by_variant.get(baseline)
            mean = "" if base is None else mean_text(base.summary, scale_for(base, rows))
            changes = (_change(by_variant.get(variant), rows) for variant in variants)
            lines.append(f"| {' | '.join((name, mean, *changes))} |")
    if not lines:
        return
    yield f"| | {' | '.join(_plain(v) for v in (baseline, *variants))} |"
    yield f"|:--|{'--:|' * (1 + len(variants))}"
    yield from lines
    yield ""


def _change(row: Row | None, rows: Sequence[Row]) -> str:
    if row is None:
        return ""
    if row.effect is None:
        return _plain(row.reason or mean_text(row.summary, scale_for(row, rows)))
    return f"{change(row.effect, row.metric, scale_for(row, rows))} {_plain(verdict_text(row))}"


def _case(report: Report, case: Case, *, every: bool) -> Iterable[str]:
    groups, left_out = selected(report, case, every=every)
    yield f"### {_plain(str(case))}"
    yield ""
    if not groups:
        yield "No valid trial."
        yield ""
        return
    yield "| " + " | ".join(HEADER) + " |"
    yield "|:--|:--|--:|--:|--:|--:|--:|--:|:--|"
    for rows in groups.values():
        for index, row in enumerate(rows):
            yield "| " + " | ".join(_columns(row, scale_for(row, rows), first=index == 0)) + " |"
    yield ""
    if left_out:
        are = "is" if left_out == 1 else "are"
        yield f"{count_of(left_out, 'metric')} without a clear change {are} not shown."
        yield ""


def _columns(row: Row, scale: Scale, *, first: bool) -> tuple[str, ...]:
    metric, summary, effect = row.metric, row.summary, row.effect
    star = " ★" if row.primary else ""
    name = f"{_cell(metric.id)} {ARROWS[metric.direction]}{star}" if first else ""
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


def _folded(title: str, lines: Sequence[object]) -> Iterable[str]:
    if not lines:
        return
    yield f"<details><summary>{title} ({len(lines)})</summary>"
    yield ""
    for line in lines:
        yield f"- {_plain(str(line))}"
    yield ""
    yield "</details>"
    yield ""

"""Render the section *Published values* for every format: published figures next to measured ones."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfrunner.report.numbers import (
    DIVIDE_SIGN,
    LARGE_RATIO,
    TIMES_SIGN,
    change_of,
    folded,
    minus,
    percent_change,
    scale_of,
    short_names,
    significant,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import RenderableType

    from perfrunner.analysis.published import Published, PublishedLine
    from perfrunner.report.model import Report


MARKS = {"agrees": "✔", "disagrees": "✘", "cannot tell": "?"}
LIKENESSES = ("same size", "same direction", "disagrees", "cannot tell")
ARROW = "→"


@dataclass(frozen=True)
class PublishedText:
    """A line of the section as text: both pairs of values, both effects, and the agreement."""

    label: str
    variant: str
    published: str
    published_change: str
    measured: str
    measured_change: str
    agreement: str
    why: str


def published_texts(report: Report) -> dict[str, list[PublishedText]]:
    """Return the lines by table title. A baseline has a line only if nothing is compared with it."""
    tables: dict[str, list[PublishedText]] = {}
    compared = {_place(line) for line in report.published_lines if line.effect is not None}
    for line in report.published_lines:
        if line.effect is None and _place(line) in compared and line.variant == _baseline(report):
            continue
        tables.setdefault(line.table, []).append(_text(line, _baseline(report)))
    return tables


def published_facts(report: Report) -> list[tuple[str, str]]:
    """Return the sources of the published values and the known differences."""
    published = report.published
    if published is None:
        return []
    pairs = [("claim", published.claim), ("source", published.source), ("machine", published.machine),
             ("why they may differ", published.why)]  # fmt: skip
    pairs += [("also published", note) for note in published.notes]
    pairs += [
        (table.title, _stated(table.n, table.spread, table.note)) for table in published.tables
    ]
    return [(label, text) for label, text in pairs if text]


def counts_text(report: Report) -> str:
    """Count the lines by likeness: `same size 5, same direction 7, disagrees 1, cannot tell 3`."""
    likenesses = [line.likeness for line in report.published_lines if line.likeness is not None]
    return ", ".join(
        f"{word} {likenesses.count(word)}" for word in LIKENESSES if word in likenesses
    )


def published_records(report: Report) -> list[dict[str, Any]]:
    """Return the lines as plain values, in the metric's unit."""
    return [
        {
            "table": line.table,
            "label": line.label,
            "workload": line.case.workload,
            "bucket": line.case.bucket,
            "metric": line.metric.id,
            "unit": line.metric.unit,
            "variant": line.variant,
            "published": {"value": line.published.value, "n": line.published.n, "spread": line.published.spread},
            "published_effect": line.effect,
            "measured": None if line.measured is None else line.measured.summary.mean,
            "measured_effect": _number(line, "estimate"),
            "measured_effect_ci95": _number(line, "ci95"),
            "effect": line.metric.effect,
            "agreement": line.agreement,
            "why": line.why,
            "size": line.size,
        }
        for line in report.published_lines
    ]  # fmt: skip


def published_text(published: Published, line: PublishedLine) -> str:
    """Return a published value; a small one keeps the digits it was published with."""
    if abs(published.value) < 1000:
        return f"{published.value:g} {line.metric.unit.replace('us', 'µs')}"
    return value_text(published.value, line)


def value_text(value: float, line: PublishedLine) -> str:
    """Return a value with its unit, in up to seven plain digits like the historic tables."""
    if 1000 <= abs(value) < 10_000_000 and line.metric.unit not in ("ns", "us"):
        return f"{value:,.0f} {line.metric.unit}"
    return scale_of(line.metric, value).text(value)


def published_change(line: PublishedLine) -> str:
    """Return the effect of the published values."""
    if line.effect is None:
        return ""
    if line.metric.effect == "difference":
        unit = "pt" if line.metric.unit == "%" else line.metric.unit
        return f"{significant_signed(line.effect)} {unit}"
    return factor_text(line.effect)


def measured_change(line: PublishedLine) -> str:
    """Return the measured effect with its interval."""
    return "" if line.measured is None else change_of(line.measured)


def factor_text(ratio: float) -> str:
    """Return a ratio in percent, or as a factor where reports write measured effects so."""
    if 1 / LARGE_RATIO <= ratio <= LARGE_RATIO:
        return percent_change(ratio)
    sign, factor = (TIMES_SIGN, ratio) if ratio > 1 else (DIVIDE_SIGN, 1 / ratio)
    return f"{sign}{significant(factor, 3)}"


def significant_signed(value: float) -> str:
    """Return three significant digits with the sign."""
    return minus(f"{value:+.3g}")


def _text(line: PublishedLine, baseline: str) -> PublishedText:
    word = f"{MARKS[line.agreement]} {line.agreement}" if line.agreement else ""
    published, measured = published_text(line.published, line), "not measured"
    if line.variant != baseline and line.published_baseline is not None:
        published = f"{published_text(line.published_baseline, line)} {ARROW} {published}"
    if line.measured is not None:
        measured = value_text(line.measured.summary.mean, line)
        if line.variant != baseline and line.measured_baseline is not None:
            measured = f"{value_text(line.measured_baseline.summary.mean, line)} {ARROW} {measured}"
    return PublishedText(
        label=line.label,
        variant=line.variant,
        published=published,
        published_change=published_change(line),
        measured=measured,
        measured_change=measured_change(line),
        agreement=word,
        why=line.size or line.why,
    )


def _stated(n: int | None, spread: str, note: str) -> str:
    parts = [f"n = {n}" if n else "", spread, note]
    return "; ".join(part for part in parts if part)


def _number(line: PublishedLine, name: str) -> Any:
    if line.measured is None or line.measured.effect is None:
        return None
    value = getattr(line.measured.effect, name)
    return list(value) if isinstance(value, tuple) else value


def _place(line: PublishedLine) -> tuple[object, ...]:
    return line.table, line.label, line.case, line.metric.id


def _baseline(report: Report) -> str:
    return report.comparison.baseline


def lines_of(report: Report) -> Iterable[PublishedLine]:
    """Yield the lines that have both effects, which a chart can show."""
    for line in report.published_lines:
        if (
            line.effect is not None
            and line.measured is not None
            and line.measured.effect is not None
        ):
            yield line


def published_section(report: Report) -> Iterable[str]:
    """Yield the section in Markdown; nothing without published values."""
    if not report.published_lines:
        return
    yield f"<details><summary>Published values: {counts_text(report)}</summary>"
    yield ""
    for label, text in published_facts(report):
        yield f"- {plain(label)}: {plain(text)}"
    yield ""
    yield from published_tables(report)
    yield "</details>"
    yield ""


def published_tables(report: Report) -> Iterable[str]:
    """Yield every published table in Markdown with the measured values next to it."""
    for title, lines in published_texts(report).items():
        headings = (
            "variant",
            "published",
            "measured",
            "published change",
            "measured change [95 %]",
            "agreement",
        )
        yield f"| {' | '.join((plain(title), *headings))} |"
        yield "|:--|:--|--:|--:|--:|--:|:--|"
        for line in lines:
            word = ": ".join(text for text in (line.agreement, line.why) if text)
            entries = (plain(line.label), plain(line.variant), line.published, line.measured,
                     line.published_change, line.measured_change, word)  # fmt: skip
            yield "| " + " | ".join(entries) + " |"
        yield ""


def plain(text: str) -> str:
    """Escape text so that names and reasons do not become markup."""
    for mark in ("\\", "|", "*", "_", "`", "<", "[", "#", "&", "~"):
        text = text.replace(mark, f"\\{mark}")
    return (minus(text) if text.startswith("-") else text).replace("\n", " ")


WIDTH = 72
LABEL, COLUMN = 15, 14


def commit_published(report: Report) -> list[str]:
    """Return the section of a commit message; no lines without published values."""
    if report.published is None or not report.published_lines:
        return []
    lines = textwrap.wrap(f"Published values: {counts_text(report)}", WIDTH)
    lines += textwrap.wrap(f"source: {report.published.source}", WIDTH, subsequent_indent="  ")
    for title, of_table in groupby(report.published_lines, lambda line: line.table):
        rows = [list(of_row) for _, of_row in groupby(of_table, _row)]
        variants = list(dict.fromkeys(line.variant for row in rows for line in row))
        texts = [text(line) for row in rows for line in row for _, text in _KINDS]
        column = max(COLUMN, 1 + max(map(len, texts)))
        columns = max(1, (WIDTH - LABEL) // column)
        for start in range(0, len(variants), columns):
            chunk = variants[start : start + columns]
            lines += ["", *_table(title, rows, chunk, column)]
    return [*lines, ""]


def _table(
    title: str, rows: list[list[PublishedLine]], variants: list[str], column: int
) -> Iterable[str]:
    yield from textwrap.wrap(title, WIDTH, subsequent_indent="  ")
    named = short_names(variants, column - 1, ".")
    yield _columns("", [named[variant] for variant in variants], column)
    for row in rows:
        by_variant = {line.variant: line for line in row if line.variant in variants}
        if not by_variant:
            continue
        yield from textwrap.wrap(row[0].label, WIDTH, subsequent_indent="  ")
        for name, text in _KINDS:
            entries = [text(by_variant[v]) if v in by_variant else "" for v in variants]
            if any(entries):
                yield _columns(name, entries, column)


def _columns(label: str, entries: list[str], column: int) -> str:
    """Return a line of right-aligned columns."""
    return f"{label:<{LABEL}}{''.join(f'{entry:>{column}}' for entry in entries)}".rstrip()


def _measured(line: PublishedLine) -> str:
    return "-" if line.measured is None else value_text(line.measured.summary.mean, line)


def _change(line: PublishedLine) -> str:
    return measured_change(line).partition(" [")[0]


def _interval(line: PublishedLine) -> str:
    _, bracket, rest = measured_change(line).partition(" [")
    return f"[{rest}".replace(", ", ",") if bracket else ""


_KINDS: tuple[tuple[str, Callable[[PublishedLine], str]], ...] = (
    ("  published", lambda line: published_text(line.published, line)),
    ("    change", published_change),
    ("  measured", _measured),
    ("    change", _change),
    ("    95 %", _interval),
    ("", lambda line: line.agreement or ""),
)


def _row(line: PublishedLine) -> tuple[object, ...]:
    return line.label, line.case, line.metric.id


STYLES = {"✔": "bold green", "✘": "bold red", "?": "yellow"}


def terminal_section(report: Report, label: int) -> Iterable[RenderableType]:
    """Yield the section; nothing without published values. `label`: maximum columns of a label."""
    if not report.published_lines:
        return
    yield Text(f"\nPublished values: {counts_text(report)}", style="bold")
    for name, text in published_facts(report):
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
                Text(f"{line.published}\n{line.published_change}".rstrip()),
                Text(f"{line.measured}\n{line.measured_change}".rstrip()),
                word,
            )
        yield Text()
        yield table

"""The section *beside the reference*: published values and ours, as text that every format lays out in its own way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.report.numbers import (
    DIVIDE_SIGN,
    LARGE_RATIO,
    TIMES_SIGN,
    change,
    minus,
    percent_change,
    scale_of,
    significant,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.analysis.reference import BesideLine, Theirs
    from perfrunner.report.model import Report

MARKS = {"agrees": "✔", "disagrees": "✘", "cannot tell": "?"}
ARROW = "→"


@dataclass(frozen=True)
class BesideText:
    """A line of the section: both pairs of values, both effects, and the word."""

    label: str
    variant: str
    theirs: str
    their_change: str
    ours: str
    our_change: str
    agreement: str
    why: str


def beside_texts(report: Report) -> dict[str, list[BesideText]]:
    """The lines by the title of their table. A baseline has a line only where nothing is compared with it."""
    found: dict[str, list[BesideText]] = {}
    compared = {_place(line) for line in report.beside if line.effect is not None}
    for line in report.beside:
        if line.effect is None and _place(line) in compared and line.variant == _baseline(report):
            continue
        found.setdefault(line.table, []).append(_text(line, _baseline(report)))
    return found


def reference_facts(report: Report) -> list[tuple[str, str]]:
    """Where the published values come from, and what is known of the differences."""
    reference = report.reference
    if reference is None:
        return []
    pairs = [("claim", reference.claim), ("source", reference.source), ("machine", reference.machine),
             ("why ours may differ", reference.why)]  # fmt: skip
    pairs += [("also published", note) for note in reference.notes]
    pairs += [
        (table.title, _stated(table.n, table.spread, table.note)) for table in reference.tables
    ]
    return [(label, text) for label, text in pairs if text]


def counts_text(report: Report) -> str:
    """`agrees 12, disagrees 1, cannot tell 3`."""
    words = [line.agreement for line in report.beside if line.agreement is not None]
    return ", ".join(f"{word} {words.count(word)}" for word in MARKS if word in words)


def beside_records(report: Report) -> list[dict[str, Any]]:
    """As plain values, in the metric's unit."""
    return [
        {
            "table": line.table,
            "label": line.label,
            "workload": line.cell.workload,
            "bucket": line.cell.bucket,
            "metric": line.metric.id,
            "unit": line.metric.unit,
            "variant": line.variant,
            "theirs": {"value": line.theirs.value, "n": line.theirs.n, "spread": line.theirs.spread},
            "theirs_effect": line.effect,
            "ours": None if line.ours is None else line.ours.summary.mean,
            "ours_effect": _number(line, "estimate"),
            "ours_effect_ci95": _number(line, "ci95"),
            "effect": line.metric.effect,
            "agreement": line.agreement,
            "why": line.why,
            "size": line.size,
        }
        for line in report.beside
    ]  # fmt: skip


def published_text(theirs: Theirs, line: BesideLine) -> str:
    """A published value: a small one with the digits that it was published with."""
    if abs(theirs.value) < 1000:
        return f"{theirs.value:g} {line.metric.unit.replace('us', 'µs')}"
    return value_text(theirs.value, line)


def value_text(value: float, line: BesideLine) -> str:
    """A value in its unit: in plain digits to seven, as the historic tables have them."""
    if 1000 <= abs(value) < 10_000_000 and line.metric.unit not in ("ns", "us"):
        return f"{value:,.0f} {line.metric.unit}"
    return scale_of(line.metric, value).text(value)


def their_change(line: BesideLine) -> str:
    """The effect of the published values."""
    if line.effect is None:
        return ""
    if line.metric.effect == "difference":
        unit = "pt" if line.metric.unit == "%" else line.metric.unit
        return f"{significant_signed(line.effect)} {unit}"
    return factor_text(line.effect)


def our_change(line: BesideLine) -> str:
    """Ours, with its interval."""
    if line.ours is None or line.ours.effect is None:
        return ""
    row = line.ours
    assert row.effect is not None
    return change(row.effect, row.metric, scale_of(row.metric, row.summary.mean))


def factor_text(ratio: float) -> str:
    """In percent, or as a factor where a report writes one for our effects."""
    if 1 / LARGE_RATIO <= ratio <= LARGE_RATIO:
        return percent_change(ratio)
    sign, factor = (TIMES_SIGN, ratio) if ratio > 1 else (DIVIDE_SIGN, 1 / ratio)
    return f"{sign}{significant(factor, 3)}"


def significant_signed(value: float) -> str:
    """Three significant digits, always with the sign."""
    return minus(f"{value:+.3g}")


def _text(line: BesideLine, baseline: str) -> BesideText:
    word = f"{MARKS[line.agreement]} {line.agreement}" if line.agreement else ""
    theirs, ours = published_text(line.theirs, line), "not measured"
    if line.variant != baseline and line.theirs_baseline is not None:
        theirs = f"{published_text(line.theirs_baseline, line)} {ARROW} {theirs}"
    if line.ours is not None:
        ours = value_text(line.ours.summary.mean, line)
        if line.variant != baseline and line.ours_baseline is not None:
            ours = f"{value_text(line.ours_baseline.summary.mean, line)} {ARROW} {ours}"
    return BesideText(
        label=line.label,
        variant=line.variant,
        theirs=theirs,
        their_change=their_change(line),
        ours=ours,
        our_change=our_change(line),
        agreement=word,
        why=line.size or line.why,
    )


def _stated(n: int | None, spread: str, note: str) -> str:
    parts = [f"n = {n}" if n else "", spread, note]
    return "; ".join(part for part in parts if part)


def _number(line: BesideLine, name: str) -> Any:
    if line.ours is None or line.ours.effect is None:
        return None
    value = getattr(line.ours.effect, name)
    return list(value) if isinstance(value, tuple) else value


def _place(line: BesideLine) -> tuple[object, ...]:
    return line.table, line.label, line.cell, line.metric.id


def _baseline(report: Report) -> str:
    return report.comparison.baseline


def lines_of(report: Report) -> Iterable[BesideLine]:
    """The lines that have both effects: what a chart can show."""
    for line in report.beside:
        if line.effect is not None and line.ours is not None and line.ours.effect is not None:
            yield line

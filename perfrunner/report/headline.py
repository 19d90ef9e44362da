"""The verdict as sentences: one for each variant and primary metric, its cells grouped by verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.analysis import MIN_BLOCKS
from perfrunner.analysis.verdict import corrected_level, smallest_visible
from perfrunner.report.numbers import change, scale_of, significant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.analysis import Comparison, Row

ORDER = ("better", "worse", "same", "unsure", "invalid", None)


def headline(comparison: Comparison) -> tuple[str, ...]:
    """At least one sentence."""
    others = [row for row in comparison.rows if row.variant != comparison.baseline]
    judged = [r for r in others if r.effect is not None or r.verdict == "invalid"]
    if not judged:
        return ("Nothing can be compared: no block holds two arms of any cell.",)
    primary = [row for row in judged if row.primary]
    if not primary:
        return ("No primary metric was measured on both arms; the others are below.",)
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in primary:
        groups.setdefault((row.variant, row.metric.id), []).append(row)
    sentences = [_sentence(rows, len(comparison.cells)) for rows in groups.values()]
    if not comparison.paired:
        return ("Not interleaved, so no verdict, only Welch intervals.", *sentences)
    if all(row.verdict is None for row in primary) and comparison.blocks < MIN_BLOCKS:
        n = "1 block" if comparison.blocks == 1 else f"{comparison.blocks} blocks"
        return (f"No verdict: {n}, and a verdict needs {MIN_BLOCKS}.", *sentences)
    return tuple(sentences)


def _sentence(rows: list[Row], cells: int) -> str:
    """`jemalloc: ops_per_s is better: +1.1 % [+0.6, +1.6] on pillowfight; unsure: ...`."""
    parts = []
    for verdict in ORDER:
        found = [row for row in rows if row.verdict == verdict]
        if found:
            parts.append(_part(verdict, found, cells))
    first = rows[0]
    blocks = {row.effect.n for row in rows if row.effect is not None}
    n = f", {_span(blocks)} blocks" if blocks else ""
    against = f" against {first.effect.baseline}" if first.effect is not None else ""
    return f"{first.variant}{against}{n}: {first.metric.id} {'; '.join(parts)}."


def _part(verdict: str | None, rows: list[Row], cells: int) -> str:
    word = {
        None: "without a verdict",
        "same": f"the same within ±{_margin(rows[0])}",
    }.get(verdict, str(verdict))
    return f"{word}: " + ", ".join(_place(row, named=cells > 1) for row in rows)


def _place(row: Row, *, named: bool) -> str:
    where = f" on {row.cell}" if named else ""
    if row.effect is None:
        return f"{row.reason}{where}"
    text = change(row.effect, row.metric, scale_of(row.metric, row.summary.mean)) + where
    remarks = list(_remarks(row, alone=not named))
    return f"{text} ({', '.join(remarks)})" if remarks else text


def _remarks(row: Row, *, alone: bool) -> Iterable[str]:
    if row.small:
        yield "small"
    if row.verdict is None and row.effect is not None and row.effect.n >= MIN_BLOCKS:
        yield from [row.reason] if row.effect.paired and row.reason else []
    if row.verdict == "invalid" and row.reason:
        yield row.reason
    if row.verdict != "unsure" or row.effect is None:
        return
    if row.more_blocks is None:
        yield "more blocks of this noise would not settle it"
    else:
        yield f"about {row.more_blocks} more blocks would settle it"
    seen = smallest_visible(row.effect, corrected_level(row.effect))
    if seen is not None and alone:
        factor = 100 if row.effect.kind == "ratio" else 1
        yield f"4 of 5 such runs would see a change of {significant(factor * seen, 2)} {_unit(row)}"


def _margin(row: Row) -> str:
    if row.effect is None:
        return "?"
    factor = 100 if row.effect.kind == "ratio" else 1
    return f"{significant(factor * row.effect.margin, 2)} {_unit(row)}"


def _unit(row: Row) -> str:
    if row.metric.effect == "ratio":
        return "%"
    return "pt" if row.metric.unit == "%" else row.metric.unit


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"

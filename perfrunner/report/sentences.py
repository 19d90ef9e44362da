"""The verdict in words: one sentence an arm, the same in every format.

A sentence has a clause for each primary metric and verdict; cells with the same verdict share one. The bracket of a
clause over several cells spans all of their intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from perfrunner.analysis import MIN_BLOCKS, Cell
from perfrunner.report.numbers import (
    DIVIDE_SIGN,
    EXACT,
    LARGE_RATIO,
    TIMES_SIGN,
    bracket,
    decimals,
    factor,
    factor_digits,
    minus,
    scale_of,
    signed,
    whole,
)
from perfrunner.spec.cell import NO_BUCKET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from perfrunner.analysis import Comparison, Row
    from perfrunner.spec.metrics import MetricType

ORDER = ("better", "worse", "same", "unsure", "invalid", None)
FASTER = "ops_per_s"  # of which one says faster and slower
NOUNS = {
    "ops_per_s": "throughput",
    "ops_per_s_total": "throughput by totals",
    "ops_per_s_p90": "throughput at its p90",
    "server_cpu_us_per_op": "server CPU per operation",
    "client_cpu_us_per_op": "client CPU per operation",
    "instructions_per_op": "instructions per operation",
    "mem_used_bytes": "mem_used",
    "rss_bytes": "RSS",
    "rss_plain_bytes": "plain RSS",
    "pss_bytes": "PSS",
    "vsz_bytes": "VSZ",
    "mapped_bytes": "mapped memory",
    "allocator_frag_bytes": "free memory inside pages in use",
    "allocator_rss_bytes": "metadata and unpurged memory",
    "retained_bytes": "retained address space",
    "fragmentation_mapped": "fragmentation by mapped memory",
    "fragmentation_rss": "fragmentation by RSS",
    "fragmentation_rss_now": "fragmentation by RSS at the end",
    "fragmentation_rss_settled": "fragmentation by RSS after settling",
    "fragmentation_payload_mapped": "payload fragmentation by mapped memory",
    "fragmentation_payload_rss": "payload fragmentation by RSS",
    "fragmentation_payload_rss_now": "payload fragmentation by RSS at the end",
    "fragmentation_payload_rss_settled": "payload fragmentation by RSS after settling",
}


@dataclass(frozen=True)
class Clause:
    """What came out for one metric in the cells that share a verdict: `text` without the verdict, then `word`."""

    metric: str
    verdict: str | None
    text: str
    word: str

    def __str__(self) -> str:
        return f"{self.text}, {self.word}" if self.word else self.text


@dataclass(frozen=True)
class Sentence:
    """One arm. `lead` names what it is compared with, and over how many blocks."""

    variant: str
    lead: str
    clauses: tuple[Clause, ...]

    def __str__(self) -> str:
        return f"{self.variant}{self.lead}: {'; '.join(map(str, self.clauses))}."


def preface(comparison: Comparison) -> str:
    """Why there are no verdicts, where that is so."""
    judged = [r for r in _others(comparison) if r.effect is not None or r.verdict == "invalid"]
    if not judged:
        return "Nothing can be compared: no block holds two arms of any cell."
    primary = [row for row in judged if row.primary]
    if not primary:
        return "No primary metric was measured on both arms; the others are below."
    if not comparison.paired:
        return "Not interleaved, so no verdict, only Welch intervals."
    if all(row.verdict is None for row in primary) and comparison.blocks < MIN_BLOCKS:
        n = "1 block" if comparison.blocks == 1 else f"{comparison.blocks} blocks"
        return f"No verdict: {n}, and a verdict needs {MIN_BLOCKS}."
    return ""


def sentences(comparison: Comparison) -> tuple[Sentence, ...]:
    """In the order of the variants; none of an arm without a primary metric beside the baseline's."""
    found: dict[str, list[Row]] = {}
    for row in _others(comparison):
        if row.primary and (row.effect is not None or row.verdict == "invalid"):
            found.setdefault(row.variant, []).append(row)
    order = {variant: place for place, variant in enumerate(comparison.variants)}
    arms = sorted(found.items(), key=lambda item: order.get(item[0], len(order)))
    measured: dict[str, set[Cell]] = {}
    for row in comparison.rows:
        measured.setdefault(row.metric.id, set()).add(row.cell)
    places = {
        metric: [cell for cell in comparison.cells if cell in its]
        for metric, its in measured.items()
    }
    return tuple(_sentence(variant, rows, comparison.cells, places) for variant, rows in arms)


def noun(metric: MetricType) -> str:
    """The metric in running text; a micro-benchmark has its name."""
    if metric.id in NOUNS:
        return NOUNS[metric.id]
    if metric.id.startswith("latency_"):
        return metric.title.replace(", ", " ")
    return metric.id if "/" in metric.id or not metric.title else metric.title


def _others(comparison: Comparison) -> list[Row]:
    return [row for row in comparison.rows if row.variant != comparison.baseline]


def _sentence(
    variant: str, rows: Sequence[Row], cells: Sequence[Cell], places: Mapping[str, Sequence[Cell]]
) -> Sentence:
    """`places`: the cells in which each metric was measured."""
    baselines = [row.effect.baseline for row in rows if row.effect is not None]
    blocks = {row.effect.n for row in rows if row.effect is not None}
    against = f" against {baselines[0]}" if baselines else ""
    proved = "" if all(row.proved for row in rows) else "; not all settings are proved"
    n = f" ({_span(blocks)}{proved})" if blocks else ""
    clauses: list[Clause] = []
    for metric in dict.fromkeys(row.metric.id for row in rows):
        its = [row for row in rows if row.metric.id == metric]
        clauses += (_clause(group, cells, places[metric]) for group in _groups(its))
    return Sentence(variant, f"{against}{n}", tuple(clauses))


def _groups(rows: Sequence[Row]) -> Iterable[list[Row]]:
    """By verdict, and what is certain also by size (small or not) and direction."""
    for verdict in ORDER:
        found: dict[object, list[Row]] = {}
        for row in (r for r in rows if r.verdict == verdict):
            certain = verdict in ("better", "worse", None) and row.effect is not None
            reason = row.reason if verdict in ("invalid", None) else ""
            kind = (row.small, certain and _up(row), _large([row]), reason)
            found.setdefault(kind, []).append(row)
        yield from found.values()


def _clause(rows: Sequence[Row], cells: Sequence[Cell], places: Sequence[Cell]) -> Clause:
    first = rows[0]
    where = _where([row.cell for row in rows], cells, places)
    word = (first.verdict or "") + (" (small)" if first.small else "")
    if first.verdict == "invalid" or first.effect is None:
        word += f" ({first.reason})" if first.reason else ""
        return Clause(first.metric.id, first.verdict, f"{noun(first.metric)}{where}", word)
    if first.verdict is None and first.effect.paired and first.effect.n >= MIN_BLOCKS:
        word = first.reason
    if first.verdict == "unsure":
        more = [row.more_blocks for row in rows]
        known = [n for n in more if n is not None]
        if len(known) == len(more):
            word += (
                f" (about {max(known)} more block{'' if max(known) == 1 else 's'} would settle it)"
            )
        else:
            word += " (more blocks of this noise would not settle it)"
    return Clause(first.metric.id, first.verdict, f"{_change(rows)}{where}", word)


def _change(rows: Sequence[Row]) -> str:
    """`3.6 to 4.7 % faster [+2.3, +5.1]`, `8.3 points more fragmentation by RSS [+7.7, +8.9]`."""
    metric = rows[0].metric
    name = noun(metric)
    values, bounds, unit = _measures(rows)
    if unit == TIMES_SIGN:
        return _factors(metric, values, bounds)
    half = None if bounds is None else (bounds[1] - bounds[0]) / 2
    places = decimals(half, max(map(abs, values)))
    inside = (
        "" if bounds is None else f" {_bracket(values, bounds, partial(signed, places=places))}"
    )
    ends = list(dict.fromkeys(f"{abs(v):.{places}f}" for v in sorted(values, key=abs)))
    ends = [ends[0], ends[-1]] if len(ends) > 1 else ends
    if inside.endswith(EXACT):
        ends = [whole(ends[0])]
    ups = {v > 0 for v in values if float(f"{v:.{places}f}")}
    if len(ups) > 1:
        span = " to ".join(signed(v, places) for v in (min(values), max(values)))
        return f"{name} {span} {unit}{inside}"
    if not ups:
        same = "as fast" if metric.id == FASTER else f"no change of {name}"
        return f"{same} {inside.lstrip()}".rstrip()
    up = ups.pop()
    if metric.id == FASTER:
        return f"{' to '.join(ends)} {unit} {'faster' if up else 'slower'}{inside}"
    if "/" in metric.id:
        sign = "+" if up else minus("-")
        return f"{name} {' to '.join(sign + end for end in ends)} {unit}{inside}"
    return f"{' to '.join(ends)} {unit} {'more' if up else 'less'} {name}{inside}"


def _factors(
    metric: MetricType, values: Sequence[float], bounds: tuple[float, float] | None
) -> str:
    """`2.1 to 3.4 times faster [2.0, 3.6]`, `GetCursorsToDrop ÷36,200 [32,600, 40,300]`."""
    less = max(values) < 1
    if less:
        values = [1 / v for v in values]
        bounds = None if bounds is None else (1 / bounds[1], 1 / bounds[0])
    low, high = min(values), max(values)
    write = partial(factor, digits=factor_digits(low, *bounds) if bounds and low == high else 3)
    inside = "" if bounds is None else f" {_bracket(values, bounds, write)}"
    if not less and low < 1:  # in both directions
        return f"{noun(metric)} {TIMES_SIGN}{write(low)} to {TIMES_SIGN}{write(high)}{inside}"
    text = " to ".join(dict.fromkeys(map(write, (low, high))))
    if inside.endswith(EXACT):
        text = whole(text)
    if metric.id == FASTER:
        return f"{text} times {'slower' if less else 'faster'}{inside}"
    return f"{noun(metric)} {DIVIDE_SIGN if less else TIMES_SIGN}{text}{inside}"


def _bracket(
    values: Sequence[float], bounds: tuple[float, float], write: Callable[[float], str]
) -> str:
    """All values within: exact only where they are written alike."""
    shown = {write(value) for value in values}
    return bracket(write(bounds[0]), write(bounds[1]), shown.pop() if len(shown) == 1 else "")


def _measures(rows: Sequence[Row]) -> tuple[list[float], tuple[float, float] | None, str]:
    """Estimates, the span of their intervals, and the unit: percent, points, bytes; or factors."""
    first = rows[0]
    kind = first.effect.kind if first.effect is not None else ""
    scale, shift, unit = 1.0, 0.0, TIMES_SIGN
    if kind == "ratio" and not _large(rows):
        scale, shift, unit = 100.0, 1.0, "%"
    elif kind == "difference":
        chosen = scale_of(first.metric, max(abs(r.effect.estimate) for r in rows if r.effect))
        scale, unit = 1 / chosen.factor, "points" if first.metric.unit == "%" else chosen.unit
    values = [(r.effect.estimate - shift) * scale for r in rows if r.effect is not None]
    intervals = [r.effect.ci95 for r in rows if r.effect is not None]
    if any(interval is None for interval in intervals):
        return values, None, unit
    ends = [(end - shift) * scale for interval in intervals if interval for end in interval]
    return values, (min(ends), max(ends)), unit


def _large(rows: Sequence[Row]) -> bool:
    """Whether a factor reads better than a percentage (as in `numbers.change`)."""
    ends = [
        end
        for row in rows
        if row.effect is not None and row.effect.kind == "ratio"
        for end in (row.effect.estimate, *(row.effect.ci95 or ()))
    ]
    return any(end > LARGE_RATIO or end < 1 / LARGE_RATIO for end in ends)


def _up(row: Row) -> bool:
    return row.effect is not None and row.effect.estimate > row.effect.neutral


def _where(found: Sequence[Cell], cells: Sequence[Cell], places: Sequence[Cell]) -> str:
    """Which cells: nothing where the experiment has but one; a workload or a bucket type that they fill, else each."""
    if len(cells) == 1:
        return ""
    if len(found) == len(places) > 1:
        return " in both cells" if len(places) == 2 else f" in all {len(places)} cells"
    parts: list[str] = []
    left = list(found)
    for named in ("workload", "bucket"):
        for name in dict.fromkeys(getattr(cell, named) for cell in found):
            whole = [cell for cell in places if getattr(cell, named) == name]
            if len(whole) > 1 and name != NO_BUCKET and all(cell in left for cell in whole):
                parts.append(name)
                left = [cell for cell in left if cell not in whole]
    return f" on {', '.join([*parts, *map(str, left)])}"


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low} block{'' if low == 1 else 's'}" if low == high else f"{low} to {high} blocks"

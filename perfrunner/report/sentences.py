"""Write the verdicts as sentences: one for each variant, the same in every format.

A sentence has a clause for each primary metric and verdict. Cases with the same verdict share a clause, which gives
the span that holds all of their intervals and says so. Where throughput and total CPU disagree, the sentence has a
clause for the CPU. `question` phrases the question that a chart of a metric answers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from perfrunner.domain import MIN_BLOCKS, NO_BUCKET, Case
from perfrunner.report.numbers import (
    DIVIDE_SIGN,
    EXACT,
    TIMES,
    TIMES_SIGN,
    bracket,
    decimals,
    factor,
    factor_digits,
    interval_places,
    is_large,
    minus,
    scale_of,
    signed,
    significant,
    without_zeros,
)
from perfrunner.text import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from perfrunner.analysis.model import Comparison, Row
    from perfrunner.spec.metrics import MetricType


ORDER = ("better", "worse", "same", "unsure", "not comparable", None)
FASTER = "ops_per_s"  # its changes are written as faster and slower
NOUNS = {
    "ops_per_s": "throughput",
    "ops_per_s_total": "throughput by totals",
    "ops_per_s_p90": "throughput at its p90",
    "server_cpu_us_per_op": "server CPU per operation",
    "total_cpu_us_per_op": "total server CPU per operation",
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
    "rss_full_bytes": "RSS with all items",
    "rss_deleted_bytes": "RSS after the deletion",
    "rss_regrown_bytes": "RSS with the items back",
    "rss_returned": "memory returned after the deletion",
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
    """The result of one metric in the cases that share a verdict: `text` without the verdict, then `word`."""

    metric: str
    verdict: str | None
    text: str
    word: str

    def __str__(self) -> str:
        return f"{self.text}, {self.word}" if self.word else self.text


@dataclass(frozen=True)
class Sentence:
    """The sentence of one variant. `lead` names the baseline and the number of blocks."""

    variant: str
    lead: str
    clauses: tuple[Clause, ...]

    def __str__(self) -> str:
        return f"{self.variant}{self.lead}: {'; '.join(map(str, self.clauses))}."


def preface(comparison: Comparison) -> str:
    """Return the reason why there are no verdicts, or an empty text."""
    judged = [
        r for r in _others(comparison) if r.effect is not None or r.verdict == "not comparable"
    ]
    if not judged:
        return "Nothing can be compared: no block holds two variants of any case."
    primary = [row for row in judged if row.primary]
    if not primary:
        return "No primary metric was measured on both variants; the others are below."
    if not comparison.paired:
        return "Not interleaved, so no verdict, only Welch intervals."
    if all(row.verdict is None for row in primary) and comparison.blocks < MIN_BLOCKS:
        return (
            f"No verdict: {count_of(comparison.blocks, 'block')}, and a verdict needs {MIN_BLOCKS}."
        )
    return ""


def sentences(comparison: Comparison) -> tuple[Sentence, ...]:
    """Return a sentence for each variant that shares a primary metric with the baseline, in their order."""
    by_variant: dict[str, list[Row]] = {}
    disagreeing = {(row.case, row.variant) for row in comparison.rows if row.cpu}
    for row in _others(comparison):
        in_sentence = row.primary or (row.companion and (row.case, row.variant) in disagreeing)
        if in_sentence and (row.effect is not None or row.verdict == "not comparable"):
            by_variant.setdefault(row.variant, []).append(row)
    order = {variant: index for index, variant in enumerate(comparison.variants)}
    variants = sorted(by_variant.items(), key=lambda item: order.get(item[0], len(order)))
    measured: dict[str, set[Case]] = {}
    for row in comparison.rows:
        measured.setdefault(row.metric.id, set()).add(row.case)
    places = {
        metric: [case for case in comparison.cases if case in having]
        for metric, having in measured.items()
    }
    failed = Counter(trial.variant for trial in comparison.discarded if trial.status == "failed")
    given = bool(preface(comparison))
    return tuple(
        _sentence(variant, rows, comparison.cases, places, failed, reasons=not given)
        for variant, rows in variants
    )


def noun(metric: MetricType) -> str:
    """Return the noun for a metric in running text; a micro-benchmark keeps its name."""
    if metric.id in NOUNS:
        return NOUNS[metric.id]
    if metric.id.startswith("latency_"):
        return metric.title.replace(", ", " ")
    return metric.id if "/" in metric.id or not metric.title else metric.title


def _others(comparison: Comparison) -> list[Row]:
    return [row for row in comparison.rows if row.variant != comparison.baseline]


def _sentence(
    variant: str,
    rows: Sequence[Row],
    cases: Sequence[Case],
    places: Mapping[str, Sequence[Case]],
    failed: Mapping[str, int],
    *,
    reasons: bool,
) -> Sentence:
    """Return the sentence of a variant.

    `places` has the cases in which each metric was measured, `failed` the number of failed trials of each variant: the
    sentence compares the blocks that both survived. `reasons`: say why a row has no verdict.
    """
    baselines = [row.effect.baseline for row in rows if row.effect is not None]
    blocks = {row.effect.n for row in rows if row.effect is not None}
    against = f" against {baselines[0]}" if baselines else ""
    checked = "" if all(row.checked for row in rows) else "; not all settings are checked"
    crashes = "".join(
        f"; {name} failed in {count_of(failed[name], 'trial')}"
        for name in (*baselines[:1], variant)
        if failed.get(name)
    )
    n = f" ({_span(blocks)}{crashes}{checked})" if blocks else ""
    clauses: list[Clause] = []
    for metric in dict.fromkeys(row.metric.id for row in rows):
        of_metric = [row for row in rows if row.metric.id == metric]
        groups = _groups(of_metric)
        clauses += (_clause(group, cases, places[metric], reasons=reasons) for group in groups)
    return Sentence(variant, f"{against}{n}", tuple(clauses))


def _groups(rows: Sequence[Row]) -> Iterable[list[Row]]:
    """Group rows by verdict; rows with a clear change also by size (small or not) and direction."""
    for verdict in ORDER:
        groups: dict[object, list[Row]] = {}
        for row in (r for r in rows if r.verdict == verdict):
            certain = verdict in ("better", "worse", None) and row.effect is not None
            reason = row.reason if verdict in ("not comparable", None) else ""
            kind = (row.small, certain and _up(row), is_large([row]), reason)
            groups.setdefault(kind, []).append(row)
        yield from groups.values()


def _clause(
    rows: Sequence[Row], cases: Sequence[Case], places: Sequence[Case], *, reasons: bool
) -> Clause:
    first = rows[0]
    where = _where([row.case for row in rows], cases, places)
    word = (first.verdict or "") + (" (small)" if first.small else "")
    if first.verdict == "not comparable" or first.effect is None:
        word += f" ({first.reason})" if first.reason else ""
        return Clause(first.metric.id, first.verdict, f"{noun(first.metric)}{where}", word)
    if first.verdict is None and reasons:
        word = first.reason
    if first.verdict == "unsure":
        word += f" ({_plan(rows)})"
    text = f"{_change(rows)}{where}".replace("  ", " ")  # an unknown metric has no unit
    return Clause(first.metric.id, first.verdict, text, word)


def _plan(rows: Sequence[Row]) -> str:
    """Return what would settle all rows: `20 more blocks decide ±0.5 %`."""
    more = [row.more_blocks for row in rows if row.more_blocks is not None]
    visible = [row.decides for row in rows if row.decides is not None]
    if len(more) < len(rows) or not visible:
        return "more blocks of this noise would not settle it"
    n, metric, seen = max(more), rows[0].metric, max(visible)
    if metric.effect == "ratio":
        size = f"{significant(100 * seen, 2)} %"
    elif metric.unit == "%":
        size = f"{significant(seen, 2)} points"
    else:
        size = scale_of(metric, seen).text(seen)
    return f"{n} more {'block decides' if n == 1 else 'blocks decide'} \N{PLUS-MINUS SIGN}{size}"


def _change(rows: Sequence[Row]) -> str:
    """Return the change as text.

    Examples: `3.6 to 4.7 % faster (intervals within [+2.3, +5.1])`, `2.1 points more VSZ [+1.7, +2.5]`.
    """
    metric = rows[0].metric
    name = noun(metric)
    values, bounds, unit = _measures(rows)
    if unit == TIMES_SIGN:
        return _factors(metric, values, bounds)
    size = max(map(abs, values))
    places = decimals(None, size) if bounds is None else interval_places(bounds, size)
    inside = (
        "" if bounds is None else f" {_bracket(values, bounds, partial(signed, places=places))}"
    )
    ends = list(dict.fromkeys(f"{abs(v):.{places}f}" for v in sorted(values, key=abs)))
    ends = [ends[0], ends[-1]] if len(ends) > 1 else ends
    if inside.endswith(EXACT):
        ends = [without_zeros(ends[0])]
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
    """Return a large change as a factor.

    Examples: `2.1 to 3.4 times faster (intervals within [2.0, 3.6])`, `GetCursorsToDrop ÷36,200 [32,600, 40,300]`.
    """
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
        text = without_zeros(text)
    if metric.id == FASTER:
        return f"{text} times {'slower' if less else 'faster'}{inside}"
    return f"{noun(metric)} {DIVIDE_SIGN if less else TIMES_SIGN}{text}{inside}"


def _bracket(
    values: Sequence[float], bounds: tuple[float, float], write: Callable[[float], str]
) -> str:
    """Return the interval of a value, or the span that holds the intervals of several values.

    `[exact]` only if all values are written the same.
    """
    shown = {write(value) for value in values}
    text = bracket(write(bounds[0]), write(bounds[1]), shown.pop() if len(shown) == 1 else "")
    return f"(intervals within {text})" if len(values) > 1 and text != EXACT else text


def _measures(rows: Sequence[Row]) -> tuple[list[float], tuple[float, float] | None, str]:
    """Return the estimates, the span of their intervals, and their unit (percent, points, bytes or factors)."""
    first = rows[0]
    kind = first.effect.kind if first.effect is not None else ""
    scale, shift, unit = 1.0, 0.0, TIMES_SIGN
    if kind == "ratio" and not is_large(rows):
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


def _up(row: Row) -> bool:
    return row.effect is not None and row.effect.estimate > row.effect.neutral


def _where(named_cases: Sequence[Case], cases: Sequence[Case], places: Sequence[Case]) -> str:
    """Name the cases: nothing if the experiment has one, a workload or bucket type that they cover, else each case."""
    if len(cases) == 1:
        return ""
    if len(named_cases) == len(places) > 1:
        return " in both cases" if len(places) == 2 else f" in all {len(places)} cases"
    parts: list[str] = []
    left = list(named_cases)
    for named in ("workload", "bucket"):
        for name in dict.fromkeys(getattr(case, named) for case in named_cases):
            whole = [case for case in places if getattr(case, named) == name]
            if len(whole) > 1 and name != NO_BUCKET and all(case in left for case in whole):
                parts.append(name)
                left = [case for case in left if case not in whole]
    return f" on {', '.join([*parts, *map(str, left)])}"


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return count_of(low, "block") if low == high else f"{low} to {high} blocks"


LONGEST = 24  # a longer variant name is not repeated in the question
OF_METRICS = (  # start or end of a metric id -> question about a variant
    ("ops_per_s", "Is {} faster?"),
    ("fragmentation", "Does {} waste less memory?"),
    ("latency_", "Does {} have lower latency?"),
    ("_cpu_us_per_op", "Does {} need less CPU time?"),
)
OF_DIRECTIONS = {
    "higher": "Does {} have more {noun}?",
    "lower": "Does {} have less {noun}?",
    "none": "Does {} change {noun}?",
}


def question(metric: MetricType, variants: Sequence[str]) -> str:
    """Return the question for a metric; the first of `variants` is the baseline."""
    others = variants[1:]
    variant = others[0] if len(others) == 1 and len(others[0]) <= LONGEST else "any variant"
    for part, text in OF_METRICS:
        if metric.id.startswith(part) or (part.startswith("_") and metric.id.endswith(part)):
            return text.format(variant)
    if metric.unit in TIMES:
        return f"Does {variant} take less time?"
    if metric.unit.startswith("B"):
        return f"Does {variant} need less memory?"
    return OF_DIRECTIONS[metric.direction].format(variant, noun=noun(metric))

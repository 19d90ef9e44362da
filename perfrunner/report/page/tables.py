"""The tables of the HTML page: short summary, comparison chart, results of each case, functions whose CPU time changed.

The comparison chart is a table of every change of a metric with its interval and margin. Its strips are HTML placed
in percent, which fit any width, print well and need no script.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from perfrunner.analysis.account import MORE_CPU
from perfrunner.report.explain import (
    event_rows,
    function_rows,
    heading,
    samples_text,
    summary_lines,
    title,
)
from perfrunner.report.flame import (
    boxes,
    colour_of,
    difference_svg,
    flame_svg,
    frames,
    points,
    scale_of_colours,
    short_name,
)
from perfrunner.report.model import primary_rows, selected
from perfrunner.report.numbers import (
    ARROWS,
    LARGE_RATIO,
    MARKS,
    TIMES_SIGN,
    change,
    decimals,
    factor,
    factor_label,
    factor_steps,
    is_large,
    mean_text,
    more_text,
    p_text,
    scale_for,
    scale_of,
    signed,
    significant,
    spread,
    verdict_text,
)
from perfrunner.report.sentences import ORDER, noun
from perfrunner.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfrunner.analysis.model import Interval, Row
    from perfrunner.domain import Case
    from perfrunner.report.explain import ProfiledPair
    from perfrunner.report.model import Report
    from perfrunner.report.numbers import Scale


Verdicts = list[tuple[str, str, str]]  # class, mark, words


def brief(report: Report) -> tuple[list[str], list[tuple[str, int, list[tuple[str, Verdicts]]]]]:
    """Return the metrics, and for each variant its place and by metric the span of changes and the verdicts."""
    metrics = primary_rows(report)
    firsts = [next(iter(cases.values()))[0] for cases in metrics.values()]
    names = [
        f"{noun(row.metric).replace('fragmentation', 'frag.')}, {_unit(row)}" for row in firsts
    ]
    lines = []
    for index, variant in enumerate(report.comparison.variants[1:], 1):
        by_metric = [
            [row for rows in cases.values() for row in rows if row.variant == variant]
            for cases in metrics.values()
        ]
        if any(row.effect is not None for rows in by_metric for row in rows):
            lines.append((variant, index, [(_span(rows), _verdicts(rows)) for rows in by_metric]))
    return names, lines


def _span(rows: Sequence[Row]) -> str:
    """Return the span of changes over cases, in the digits that their intervals justify."""
    effects = [row.effect for row in rows if row.effect is not None]
    if not effects:
        return ""
    values = [effect.estimate for effect in effects]
    low, high = min(values), max(values)
    ratio = effects[0].kind == "ratio"
    if ratio and (high > LARGE_RATIO or low < 1 / LARGE_RATIO):
        ends = [f"{TIMES_SIGN}{factor(value)}" for value in (low, high)]
        return "…".join(dict.fromkeys(ends))
    scale = 100.0 if ratio else 1.0
    halves = [scale * (e.ci95[1] - e.ci95[0]) / 2 for e in effects if e.ci95 is not None]
    places = min(1, decimals(max(halves))) if halves else 1
    ends = [signed(scale * (value - effects[0].neutral), places) for value in (low, high)]
    return "…".join(dict.fromkeys(ends))


def _unit(row: Row) -> str:
    """Return the unit of a change that is not a large factor."""
    if row.metric.effect == "ratio":
        return "%"
    return "points" if row.metric.unit == "%" else row.metric.unit


def _verdicts(rows: Sequence[Row]) -> Verdicts:
    """Return each verdict once, the clearest first."""
    verdicts = sorted({row.verdict for row in rows if row.verdict is not None}, key=ORDER.index)
    cpu = sorted({row.cpu for row in rows if row.cpu})
    return [
        *((verdict, MARKS[verdict], verdict) for verdict in verdicts),
        *((kind := "worse" if text == MORE_CPU else "better", MARKS[kind], text) for text in cpu),
    ]


LEGEND_STEPS = 9
LEGEND_COLOURS = [colour_of(2 * step / (LEGEND_STEPS - 1) - 1) for step in range(LEGEND_STEPS)]


def explained_section(report: Report) -> list[dict[str, Any]]:
    """Return the CPU profiles by case, and what they explain; empty if none was recorded."""
    by_case: dict[Case, list[ProfiledPair]] = {}
    for pair in report.profiled:
        by_case.setdefault(pair.case, []).append(pair)
    return [_profiled_case(report, case, pairs) for case, pairs in by_case.items()]


def _profiled_case(report: Report, case: Case, pairs: Sequence[ProfiledPair]) -> dict[str, Any]:
    first = pairs[0]
    stacks = first.base_stacks
    label = f"Flame graph of {first.base} in {case}: functions by their share of the samples"
    return {
        "name": str(case),
        "index": report.comparison.cases.index(case),
        "base": first.base,
        "base_samples": samples_text(first, stacks),
        "base_svg": Markup(flame_svg(frames(stacks, stacks), label)),
        "pairs": [_profiled_pair(report, pair) for pair in pairs],
    }


def _profiled_pair(report: Report, pair: ProfiledPair) -> dict[str, Any]:
    tree = frames(pair.base_stacks, pair.variant_stacks)
    full = scale_of_colours(boxes(tree))
    tested = pair.explanation is not None
    rows = function_rows(pair) if tested else []
    return {
        "name": pair.variant,
        "index": report.comparison.variants.index(pair.variant),
        "title": title(pair),
        "lines": list(summary_lines(pair)),
        "tested": tested,
        "heading": heading(pair),
        "functions": [(thread, short_name(name), name, *cells) for thread, name, *cells in rows],
        "events": event_rows(pair) if tested else [],
        "svg": Markup(difference_svg(tree, f"Differential flame graph: {title(pair)}")),
        "legend": LEGEND_COLOURS,
        "least": points(-full),
        "most": points(full),
    }


DIRECTIONS = {"higher": "higher is better", "lower": "lower is better"}


def tables(report: Report) -> list[dict[str, Any]]:
    """Return the relevant rows by case, and the other rows to fold away."""
    return [_case(report, case) for case in report.comparison.cases]


def _case(report: Report, case: Case) -> dict[str, Any]:
    groups = report.rows(case)
    shown, left_out = selected(report, case, every=False)
    rest = {metric: rows for metric, rows in groups.items() if metric not in shown}
    parts = [(f"Results of {case}", "", _table(report, shown))]
    if left_out:
        title = f"{count_of(left_out, 'metric')} without a clear change"
        parts.append((f"{title}, {case}", title, _table(report, rest)))
    return {"case": str(case), "index": report.comparison.cases.index(case), "parts": parts}


def _table(report: Report, groups: dict[str, list[Row]]) -> list[dict[str, Any]]:
    return [
        _line(report, row, scale_for(row, rows), first=index == 0)
        for rows in groups.values()
        for index, row in enumerate(rows)
    ]


def _line(report: Report, row: Row, scale: Scale, *, first: bool) -> dict[str, Any]:
    summary, effect = row.summary, row.effect
    return {
        "first": first,
        "metric": row.metric.id,
        "title": row.metric.title,
        "arrow": ARROWS[row.metric.direction],
        "direction": DIRECTIONS.get(row.metric.direction, "no direction is better"),
        "primary": row.primary,
        "variant": row.variant,
        "index": report.comparison.variants.index(row.variant),
        "n": summary.n,
        "mean": mean_text(summary, scale),
        "half": spread(summary, row.metric, scale),
        "sd": "" if summary.sd is None else scale.prefixed(summary.sd, 3),
        "cv": "" if summary.cv is None else f"{significant(100 * summary.cv, 2)} %",
        "range": scale.span(summary.minimum, summary.maximum),
        "change": "" if effect is None else change(effect, row.metric, scale),
        "p": "" if effect is None or effect.p is None else p_text("", effect.p).lstrip("="),
        "q": "" if effect is None or effect.q is None else p_text("", effect.q).lstrip("="),
        "verdict": row.verdict or "none",
        "text": verdict_text(row),
        "remark": ", ".join(text for text in (more_text(row), row.reason) if text),
        "notes": "; ".join(row.notes),
        # to sort by
        "mean_value": repr(summary.mean),
        "change_value": "" if effect is None else repr(effect.estimate),
        "q_value": "" if effect is None or effect.q is None else repr(effect.q),
        "cv_value": "" if summary.cv is None else repr(summary.cv),
    }


TICKS = 5
FEWEST_TICKS = 3
NO_CHANGE = ("0", f"{TIMES_SIGN}1")
ROOM = 0.06  # share of the axis beyond the outermost end


@dataclass(frozen=True)
class Axis:
    """The axis of a panel: `low` and `high` in percent, the metric's unit, or log10 of factors."""

    low: float
    high: float
    factors: bool

    def place(self, position: float) -> float:
        """Return a position in percent of the strip, never outside it."""
        share = (position - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, share)), 2)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the ticks as (place, label)."""
        if self.factors:
            return [
                (self.place(math.log10(f)), factor_label(f))
                for f in factor_steps(10**self.low, 10**self.high)
            ]
        step = nice_step((self.high - self.low) / TICKS)
        places = max(0, -math.floor(math.log10(step) + 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        values = [n * step for n in range(first, last + 1)]
        return [(self.place(v), signed(v, places) if v else "0") for v in values]


def nice_step(rough: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= rough * 0.999)


def panels(
    report: Report, metrics: Mapping[str, Mapping[Case, Sequence[Row]]]
) -> list[dict[str, Any]]:
    """Return a panel for each metric that has an effect: its axis, and the variants by case."""
    drawn = []
    for metric, cases in metrics.items():
        rows = [row for group in cases.values() for row in group]
        effects = [row for row in rows if row.effect is not None]
        if not effects:
            continue
        axis, unit = _axis(effects)
        first = effects[0]
        drawn.append({
            "metric": metric,
            "title": noun(first.metric),
            "arrow": ARROWS[first.metric.direction],
            "direction": {"higher": "more is better", "lower": "less is better"}.get(first.metric.direction, ""),
            "unit": unit,
            "primary": first.primary,
            "baseline": report.comparison.baseline,
            "longest": max(len(row.variant) for row in effects),
            "ticks": _spared(axis.ticks()),
            "neutral": axis.place(_position(first.effect.neutral if first.effect else 0.0, first, axis)),
            "cases": [
                {"name": str(case), "index": report.comparison.cases.index(case),
                 "base": _baseline(group, report), "rows": list(_lines(group, axis, report))}
                for case, group in cases.items()
            ],
        })  # fmt: skip
    return drawn


def _spared(ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str, bool]]:
    """Mark every second tick as left out of narrow panels, but never the tick of no change."""
    labels = [label for _, label in ticks]
    neutral = next((labels.index(none) for none in NO_CHANGE if none in labels), 0)
    return [
        (place, label, len(ticks) > FEWEST_TICKS and (n - neutral) % 2 == 1)
        for n, (place, label) in enumerate(ticks)
    ]


def _axis(rows: Sequence[Row]) -> tuple[Axis, str]:
    effects = [row.effect for row in rows if row.effect is not None]
    ends = [e for effect in effects for e in (effect.estimate, *(effect.ci95 or ()))]
    ratio = effects[0].kind == "ratio"
    factors = is_large(rows)
    plain = Axis(0.0, 1.0, factors)
    places = [_position(e, rows[0], plain) for e in ends]
    places += [_position(bound, row, plain) for row in rows for bound in _margin(row)]
    low, high = min(places), max(places)
    room = ROOM * (high - low or 1.0)
    metric = rows[0].metric
    unit = "%" if ratio else "points" if metric.unit == "%" else _scale(rows).unit
    return Axis(low - room, high + room, factors), "factor, log axis" if factors else unit


def _position(value: float, row: Row, axis: Axis) -> float:
    if axis.factors:
        return math.log10(value)
    if row.effect is not None and row.effect.kind == "ratio":
        return (value - 1) * 100
    return value / (_scale([row]).factor if row.metric.unit != "%" else 1.0)


def _scale(rows: Sequence[Row]) -> Any:
    return scale_of(rows[0].metric, max(abs(row.summary.mean) for row in rows))


def _margin(row: Row) -> Interval:
    effect = row.effect
    assert effect is not None
    if effect.kind == "ratio":
        return 1 / (1 + effect.margin), 1 + effect.margin
    return -effect.margin, effect.margin


def _lines(rows: Sequence[Row], axis: Axis, report: Report) -> Iterable[dict[str, Any]]:
    variants = report.comparison.variants
    floors = {(f.case, f.metric): f for f in report.noise}
    for row in rows:
        effect = row.effect
        if effect is None:
            if row.variant != report.comparison.baseline:
                yield {
                    "variant": row.variant,
                    "index": variants.index(row.variant),
                    "reason": row.reason or "no effect",
                }
            continue
        low, high = effect.ci95 or (effect.estimate, effect.estimate)
        floor = floors.get((row.case, row.metric.id))
        yield {
            "variant": row.variant,
            "index": variants.index(row.variant),
            "reason": "",
            "ci": _strip(axis, row, (low, high)),
            "margin": _strip(axis, row, _margin(row)),
            "floor": _strip(axis, row, _around(effect.neutral, floor.floor, effect.kind)) if floor else None,
            "point": axis.place(_position(effect.estimate, row, axis)),
            "change": change(effect, row.metric, scale_for(row, rows)),
            "verdict": row.verdict or "none",
            "mark": MARKS.get(row.verdict or "", "·"),
            "word": (row.verdict or "no verdict") + row.qualifier,
            "detail": _detail(row),
        }  # fmt: skip


def _around(neutral: float, floor: float, kind: str) -> Interval:
    return (1 / (1 + floor), 1 + floor) if kind == "ratio" else (neutral - floor, neutral + floor)


def _strip(axis: Axis, row: Row, ends: Interval) -> dict[str, float]:
    left, right = (axis.place(_position(end, row, axis)) for end in ends)
    return {"left": left, "width": round(right - left, 2)}


def _detail(row: Row) -> str:
    effect = row.effect
    assert effect is not None
    parts = [count_of(effect.n, "block") if effect.paired else "not interleaved"]
    if effect.q is not None:
        parts.append(p_text("q", effect.q))
    if row.verdict == "unsure":
        more = more_text(row)
        parts.append(f"{more} would settle it" if row.more_blocks is not None else more)
    elif row.reason:
        parts.append(row.reason)
    return ", ".join(parts)


def _baseline(rows: Sequence[Row], report: Report) -> str:
    for row in rows:
        if row.variant == report.comparison.baseline:
            scale = scale_for(row, rows)
            return f"{row.variant} {mean_text(row.summary, scale)} {spread(row.summary, row.metric, scale)}"
    return ""

"""The tables of the HTML page: the short summary, the results of each case, and functions whose CPU time changed."""

from __future__ import annotations

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
    mean_text,
    more_text,
    p_text,
    scale_for,
    signed,
    significant,
    spread,
    verdict_text,
)
from perfrunner.report.sentences import ORDER, noun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.analysis.model import Row
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
    for place, variant in enumerate(report.comparison.variants[1:], 1):
        by_metric = [
            [row for rows in cases.values() for row in rows if row.variant == variant]
            for cases in metrics.values()
        ]
        if any(row.effect is not None for rows in by_metric for row in rows):
            lines.append((variant, place, [(_span(rows), _verdicts(rows)) for rows in by_metric]))
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
        title = f"{left_out} metrics without a clear change"
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

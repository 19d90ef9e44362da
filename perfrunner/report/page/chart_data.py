"""Collect the data of the page's interactive charts: plain values with the digits that a screen can show."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.cases import clean_blocks
from perfrunner.analysis.quality import drift
from perfrunner.domain import Case
from perfrunner.errors import TrialError
from perfrunner.report.charts.latency import latencies
from perfrunner.report.charts.rounds import Spread, binned, pairs, spread
from perfrunner.report.charts.series import PHASES, churn_courses
from perfrunner.report.charts.style import VARIANTS
from perfrunner.report.numbers import LARGE_RATIO, change, decimals, scale_for
from perfrunner.report.sentences import noun
from perfrunner.results.files import raw_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfrunner.analysis.cases import CaseBlocks
    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData, TrialRecord
    from perfrunner.results.raw import Inside, Points, RawSeries

BINS = 400  # bins of rounds over all blocks
BARS = 80  # bars of their histogram
MOST_POINTS = 240  # points of a trial's series


def chart_data(
    report: Report, data: ExperimentData, raw: RawSeries, page: Path | None
) -> dict[str, Any]:
    """Return the data by index of case and variant; for a trial `e` is its group, `n` whether it counts.

    `page` is the path of the page, to which links to raw files are relative.
    """
    comparison = report.comparison
    cases = {case: i for i, case in enumerate(comparison.cases)}
    variants = {variant: i for i, variant in enumerate(comparison.variants)}
    start = min((t.started_at for t in data.trials), default=None)
    trials, kept = [], _Files(data, page)
    by_case = clean_blocks(data.trials)
    counted = {id(trial) for blocks in by_case.values() for trial in blocks.trials}
    for t in data.trials:
        place = cases.get(t.case)
        if place is None or t.variant not in variants or start is None:
            continue
        trials.append({
            "c": place, "v": variants[t.variant], "b": t.block, "a": t.attempt, "e": t.group, "s": t.status,
            "n": int(id(t) in counted),
            "t": short((t.started_at - start).total_seconds() / 60),
            **kept.of(t), "m": {k: short(v, 6) for k, v in t.metrics.items()},
        })  # fmt: skip
    inside = [
        series for series in raw.inside if series.trial.variant in variants and series.case in cases
    ]
    return {
        "variants": list(comparison.variants),
        "colours": [VARIANTS[i % len(VARIANTS)] for i in range(len(comparison.variants))],
        "cases": [str(case) for case in comparison.cases],
        "metrics": _metrics(report, by_case),
        "large": LARGE_RATIO,
        "trials": trials,
        "files": [list(names) for names in kept.lists],
        "rates": [
            {**_place(drawn, cases, variants), "p": _points(drawn.rates), **_before(drawn)}
            for drawn in inside
            if drawn.rates
        ],
        "memory": [
            {
                **_place(drawn, cases, variants),
                "l": int(drawn.sampled_with_load),
                "k": {kind: _points(p) for kind, p in kinds.items()},
            }
            for drawn in inside
            for kinds in drawn.memory
        ],
        "churn": [_churn(by_case[case], variants) if case in by_case else {} for case in cases],
        "latency": _latency(report, inside),
        "rounds": _rounds(report, raw),
        "phases": _phases(report),
        "noise": _noise(report),
    }  # fmt: skip


def _churn(blocks: CaseBlocks, variants: Mapping[str, int]) -> dict[str, Any]:
    """Return the courses of a case's trials, and the ends of the phases with their names."""
    courses, ends = churn_courses(blocks)
    return {
        "ends": [[short(end), name] for end, name in zip(ends, PHASES, strict=False)],
        "trials": [
            {"v": variants[t.variant], "b": t.block, "e": t.group, "p": _points(points)}
            for t, points in courses
            if t.variant in variants
        ],
    }


def short(value: float, digits: int = 5) -> float:
    """Round to significant digits, which saves bytes without a visible difference."""
    if value == 0 or not math.isfinite(value):
        return 0.0
    rounded = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return int(rounded) if rounded == int(rounded) else rounded


def _place(drawn: Inside, cases: dict[Any, int], variants: dict[str, int]) -> dict[str, int]:
    """Return the indices of a trial, with its group: a baseline has several trials in a block."""
    trial = drawn.trial
    return {
        "c": cases[drawn.case],
        "v": variants[trial.variant],
        "b": trial.block,
        "e": trial.group,
    }


def _points(points: Points) -> list[list[float]]:
    step = -(-len(points) // MOST_POINTS)
    return [[short(x), short(y)] for x, y in points[::step]]


class _Files:
    """The raw files of trials as links from the page; lists of names are shared by most trials."""

    def __init__(self, data: ExperimentData, page: Path | None) -> None:
        self.data, self.page = data, page
        self.lists: dict[tuple[str, ...], int] = {}

    def of(self, trial: TrialRecord) -> dict[str, Any]:
        """Return `d`, the directory relative to the page (only below it), and `f`, the index of its list of files."""
        if self.page is None or not trial.raw_dir:
            return {}
        try:
            directory = raw_directory(self.data, trial.raw_dir)
            link = os.path.relpath(directory.resolve(), self.page.resolve().parent)
            if link.startswith(".."):
                return {}
            names = sorted((path.name for path in directory.iterdir()), key=_first)
        except (TrialError, OSError):
            return {}
        if not names:
            return {}
        place = self.lists.setdefault(tuple(names), len(self.lists))
        return {"d": Path(link).as_posix(), "f": place}


def _first(name: str) -> tuple[int, str]:
    """Sort scripts first, then logs, then data."""
    return (0 if name.endswith(".sh") else 1 if name.endswith(".log") else 2), name


def _before(drawn: Inside) -> dict[str, Any]:
    """Return `q`, name, seconds and rate of the previous phase, and `n`, the name of the drawn phase."""
    before = drawn.before
    phase = {"q": [before.name, short(before.seconds, 3), short(before.rate)]} if before else {}
    return {**phase, "n": drawn.phase}


def _noise(report: Report) -> list[dict[str, Any]]:
    """Return the noise floor and the variants' changes by primary metric and case."""
    by_metric: dict[str, dict[str, Any]] = {}
    for floor in report.noise:
        rows = [
            row
            for row in report.rows(floor.case).get(floor.metric, [])
            if row.primary and row.effect is not None and row.effect.ci95 is not None
        ]
        if not rows:
            continue
        ratio = floor.kind == "ratio"
        unit = "%" if ratio else "points" if rows[0].metric.unit == "%" else rows[0].metric.unit
        ends = (1 / (1 + floor.floor), 1 + floor.floor) if ratio else (-floor.floor, floor.floor)
        entry = by_metric.setdefault(floor.metric, {"m": floor.metric, "unit": unit, "cases": []})
        entry["cases"].append({
            "c": report.comparison.cases.index(floor.case),
            "floor": [_changed(end, ratio=ratio) for end in ends],
            "rows": [
                {
                    "v": report.comparison.variants.index(row.variant),
                    "y": [_changed(y, ratio=ratio) for y in (row.effect.estimate, *row.effect.ci95)],
                }
                for row in rows
                if row.effect is not None and row.effect.ci95 is not None
            ],
        })  # fmt: skip
    return list(by_metric.values())


def _changed(value: float, *, ratio: bool) -> float:
    return short(100 * (value - 1) if ratio else value)


def _metrics(report: Report, by_case: Mapping[Case, CaseBlocks]) -> dict[str, Any]:
    """Return the metrics: `scales` has a factor and unit by case, since magnitudes differ between cases.

    `drift` is the change from the first to the last block of a case with its interval, as text.
    """
    cases = report.comparison.cases
    by_id: dict[str, Any] = {}
    for index, case in enumerate(cases):
        for rows in report.rows(case).values():
            metric = rows[0].metric
            scale = scale_for(rows[0], rows)
            known = by_id.setdefault(metric.id, {
                "name": noun(metric), "scales": [None] * len(cases), "direction": metric.direction,
                "effect": metric.effect, "primary": rows[0].primary, "drift": [None] * len(cases),
            })  # fmt: skip
            known["scales"][index] = [scale.factor, scale.unit.strip()]
            moved = drift(by_case[case], metric) if case in by_case else None
            known["drift"][index] = change(moved, metric, scale) if moved else None
    return by_id


def _latency(report: Report, inside: Sequence[Inside]) -> list[dict[str, Any]]:
    comparison = report.comparison
    return [
        {
            "c": c, "v": comparison.variants.index(latency.variant), "op": latency.op, "n": latency.operations,
            "curve": [[round(p, 4), short(us)] for p, us in latency.curve],
            "bars": [[short(us), short(share)] for us, share in latency.bars],
        }
        for c, case in enumerate(comparison.cases)
        for latency in latencies(inside, case, comparison.variants)
    ]  # fmt: skip


def _rounds(report: Report, raw: RawSeries) -> list[dict[str, Any]]:
    """Return each variant against the baseline of the same round: in bins by block, and as a histogram.

    A block is one unit wide. All variants of a case have the same bars.
    """
    comparison = report.comparison
    documents = []
    for c, case in enumerate(comparison.cases):
        variants = {
            v: compared
            for v, variant in enumerate(comparison.variants[1:], 1)
            if (compared := list(pairs(raw.trial_slices, case, comparison.baseline, variant)))
        }
        spreads = [spread(compared, BARS) for compared in variants.values()]
        reach = [edge for each in spreads for edge in (each.edges[0], each.edges[-1])] or [0.0]
        for v, compared in variants.items():
            blocks = [
                {
                    "b": pair.block, "robust": short(_percent(pair.robust)), "total": short(_percent(pair.total)),
                    "p": [[short(x), short(_percent(y))] for x, y in zip(xs.tolist(), ys.tolist(), strict=True)],
                }
                for pair, (xs, ys) in zip(compared, binned(compared, BINS), strict=True)
            ]  # fmt: skip
            every = spread(compared, BARS, (float(min(reach)), float(max(reach))))
            documents.append({
                "c": c, "v": v, "blocks": blocks, "n": sum(len(pair.log_ratios) for pair in compared),
                "robust": short(_percent(every.robust)), "bars": _shares(every),
                "d": _places(report, case, comparison.variants[v]),
            })  # fmt: skip
    return documents


def _places(report: Report, case: Case, variant: str) -> int:
    """Return the decimal places of a change in percent that the variant's interval justifies."""
    row = report.comparison.row(case, "ops_per_s", variant)
    effect = None if row is None else row.effect
    if effect is None or effect.ci95 is None:
        return decimals(None)
    return decimals(50 * (effect.ci95[1] - effect.ci95[0]), 100 * abs(effect.estimate - 1))


def _shares(rounds: Spread) -> list[list[float]]:
    """Return (change in percent at the middle of a bar, percent of the rounds)."""
    middles = (rounds.edges[1:] + rounds.edges[:-1]) / 2
    share = 100 * (1 - rounds.beyond) / max(1, int(rounds.counts.sum()))
    return [
        [short(_percent(float(x))), short(float(n) * share, 3)]
        for x, n in zip(middles, rounds.counts, strict=True)
    ]


def _percent(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)


def _phases(report: Report) -> dict[str, Any]:
    """Return the uncounted seconds of ramp by case index; interleaved slices start after the ramp."""
    spec = report.experiment.spec_json.get("workloads") or {}
    interleaved = {method.workload for method in report.methods if method.interleaved}
    return {
        str(i): workload["ramp"]
        for i, case in enumerate(report.comparison.cases)
        if isinstance(workload := spec.get(case.workload), dict)
        and workload.get("ramp")
        and case.workload not in interleaved
    }

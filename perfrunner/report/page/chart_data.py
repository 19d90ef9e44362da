"""What the page's own charts are drawn from: plain values, as few digits as a screen shows."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.analysis import Cell
from perfrunner.analysis.cells import clean_blocks
from perfrunner.analysis.drift import drift
from perfrunner.errors import TrialError
from perfrunner.report.charts.latencies import latencies
from perfrunner.report.charts.style import ARMS
from perfrunner.report.charts.turns import Spread, binned, pairs, spread
from perfrunner.report.numbers import LARGE_RATIO, change, decimals, scale_for
from perfrunner.report.sentences import noun
from perfrunner.results.files import raw_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfrunner.analysis.cells import CellBlocks
    from perfrunner.report.model import Report
    from perfrunner.results import ExperimentData, TrialRecord
    from perfrunner.results.raw import Inside, Points, RawSeries

BINS = 400  # of rounds, over all blocks
BARS = 80  # of their histogram
MOST_POINTS = 240  # of one trial's series


def chart_data(
    report: Report, data: ExperimentData, raw: RawSeries, page: Path | None
) -> dict[str, Any]:
    """Everything by index of cell and arm; of a trial `e` is its ensemble, `n` whether it counts.

    `page` is where the page will be: links to raw files start there.
    """
    comparison = report.comparison
    cells = {cell: i for i, cell in enumerate(comparison.cells)}
    arms = {variant: i for i, variant in enumerate(comparison.variants)}
    start = min((t.started_at for t in data.trials), default=None)
    trials, kept = [], _Files(data, page)
    by_cell = clean_blocks(data.trials)
    counted = {id(trial) for blocks in by_cell.values() for trial in blocks.trials}
    for t in data.trials:
        place = cells.get(Cell(t.workload, t.bucket))
        if place is None or t.variant not in arms or start is None:
            continue
        trials.append({
            "c": place, "v": arms[t.variant], "b": t.block, "a": t.attempt, "e": t.ensemble, "s": t.status,
            "n": int(id(t) in counted),
            "t": short((t.started_at - start).total_seconds() / 60),
            **kept.of(t), "m": {k: short(v, 6) for k, v in t.metrics.items()},
        })  # fmt: skip
    inside = [one for one in raw.inside if one.trial.variant in arms and one.cell in cells]
    return {
        "arms": list(comparison.variants),
        "colours": [ARMS[i % len(ARMS)] for i in range(len(comparison.variants))],
        "cells": [str(cell) for cell in comparison.cells],
        "metrics": _metrics(report, by_cell),
        "large": LARGE_RATIO,
        "trials": trials,
        "files": [list(names) for names in kept.lists],
        "rates": [
            {**_place(one, cells, arms), "p": _points(one.rates), **_before(one)}
            for one in inside
            if one.rates
        ],
        "memory": [
            {
                **_place(one, cells, arms),
                "l": int(one.sampled_with_load),
                "k": {kind: _points(p) for kind, p in kinds.items()},
            }
            for one in inside
            for kinds in one.memory
        ],
        "latency": _latency(report, inside),
        "rounds": _rounds(report, raw),
        "phases": _phases(report),
        "noise": _noise(report),
    }  # fmt: skip


def short(value: float, digits: int = 5) -> float:
    """Rounded to significant digits: bytes saved, nothing seen."""
    if value == 0 or not math.isfinite(value):
        return 0.0
    rounded = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return int(rounded) if rounded == int(rounded) else rounded


def _place(one: Inside, cells: dict[Any, int], arms: dict[str, int]) -> dict[str, int]:
    """With the trial's ensemble: a baseline has several in a block."""
    trial = one.trial
    return {"c": cells[one.cell], "v": arms[trial.variant], "b": trial.block, "e": trial.ensemble}


def _points(points: Points) -> list[list[float]]:
    step = -(-len(points) // MOST_POINTS)
    return [[short(x), short(y)] for x, y in points[::step]]


class _Files:
    """The trials' raw files, as links from the page; the lists of names are few, for most trials have the same."""

    def __init__(self, data: ExperimentData, page: Path | None) -> None:
        self.data, self.page = data, page
        self.lists: dict[tuple[str, ...], int] = {}

    def of(self, trial: TrialRecord) -> dict[str, Any]:
        """`d`: the directory; relative, and only under the page's own directory. `f`: which list has its files."""
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
    """How it is run again, what the engine said, and then the figures."""
    return (0 if name.endswith(".sh") else 1 if name.endswith(".log") else 2), name


def _before(one: Inside) -> dict[str, Any]:
    """`q`: name, seconds and rate of what the load did before; `n`: the name of what is drawn."""
    before = one.before
    told = {"q": [before.name, short(before.seconds, 3), short(before.rate)]} if before else {}
    return {**told, "n": one.phase}


def _noise(report: Report) -> list[dict[str, Any]]:
    """By primary metric and cell: what noise alone can seem to be, and the arms' changes beside it."""
    found: dict[str, dict[str, Any]] = {}
    for floor in report.noise:
        rows = [
            row
            for row in report.rows(floor.cell).get(floor.metric, [])
            if row.primary and row.effect is not None and row.effect.ci95 is not None
        ]
        if not rows:
            continue
        ratio = floor.kind == "ratio"
        unit = "%" if ratio else "points" if rows[0].metric.unit == "%" else rows[0].metric.unit
        ends = (1 / (1 + floor.floor), 1 + floor.floor) if ratio else (-floor.floor, floor.floor)
        entry = found.setdefault(floor.metric, {"m": floor.metric, "unit": unit, "cells": []})
        entry["cells"].append({
            "c": report.comparison.cells.index(floor.cell),
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
    return list(found.values())


def _changed(value: float, *, ratio: bool) -> float:
    return short(100 * (value - 1) if ratio else value)


def _metrics(report: Report, by_cell: Mapping[Cell, CellBlocks]) -> dict[str, Any]:
    """`scales`: a factor and its unit by cell, for one metric may be millions a second here and thousands there.

    `drift`: from the first block of a cell to its last, with its interval, in words.
    """
    cells = report.comparison.cells
    found: dict[str, Any] = {}
    for place, cell in enumerate(cells):
        for rows in report.rows(cell).values():
            metric = rows[0].metric
            scale = scale_for(rows[0], rows)
            known = found.setdefault(metric.id, {
                "name": noun(metric), "scales": [None] * len(cells), "direction": metric.direction,
                "effect": metric.effect, "primary": rows[0].primary, "drift": [None] * len(cells),
            })  # fmt: skip
            known["scales"][place] = [scale.factor, scale.unit.strip()]
            moved = drift(by_cell[cell], metric) if cell in by_cell else None
            known["drift"][place] = change(moved, metric, scale) if moved else None
    return found


def _latency(report: Report, inside: Sequence[Inside]) -> list[dict[str, Any]]:
    comparison = report.comparison
    return [
        {
            "c": c, "v": comparison.variants.index(its.variant), "op": its.op, "n": its.operations,
            "curve": [[round(p, 4), short(us)] for p, us in its.curve],
            "bars": [[short(us), short(share)] for us, share in its.bars],
        }
        for c, cell in enumerate(comparison.cells)
        for its in latencies(inside, cell, comparison.variants)
    ]  # fmt: skip


def _rounds(report: Report, raw: RawSeries) -> list[dict[str, Any]]:
    """Each arm against the baseline of the same round: in bins, blocks side by side, one unit each; and all of them
    as a histogram, with the same bars for all arms of a cell.
    """
    comparison = report.comparison
    found = []
    for c, cell in enumerate(comparison.cells):
        arms = {
            v: its
            for v, variant in enumerate(comparison.variants[1:], 1)
            if (its := list(pairs(raw.turns, cell, comparison.baseline, variant)))
        }
        spreads = [spread(its, BARS) for its in arms.values()]
        reach = [edge for each in spreads for edge in (each.edges[0], each.edges[-1])] or [0.0]
        for v, its in arms.items():
            blocks = [
                {
                    "b": pair.block, "robust": short(_percent(pair.robust)), "total": short(_percent(pair.total)),
                    "p": [[short(x), short(_percent(y))] for x, y in zip(xs.tolist(), ys.tolist(), strict=True)],
                }
                for pair, (xs, ys) in zip(its, binned(its, BINS), strict=True)
            ]  # fmt: skip
            every = spread(its, BARS, (float(min(reach)), float(max(reach))))
            found.append({
                "c": c, "v": v, "blocks": blocks, "n": sum(len(pair.log_ratios) for pair in its),
                "robust": short(_percent(every.robust)), "bars": _shares(every),
                "d": _places(report, cell, comparison.variants[v]),
            })  # fmt: skip
    return found


def _places(report: Report, cell: Cell, variant: str) -> int:
    """After the point of a change in percent: what the arm's interval deserves."""
    row = report.comparison.row(cell, "ops_per_s", variant)
    effect = None if row is None else row.effect
    if effect is None or effect.ci95 is None:
        return decimals(None)
    return decimals(50 * (effect.ci95[1] - effect.ci95[0]), 100 * abs(effect.estimate - 1))


def _shares(rounds: Spread) -> list[list[float]]:
    """(change in percent at a bar's middle, percent of the rounds)."""
    middles = (rounds.edges[1:] + rounds.edges[:-1]) / 2
    share = 100 * (1 - rounds.beyond) / max(1, int(rounds.counts.sum()))
    return [
        [short(_percent(float(x))), short(float(n) * share, 3)]
        for x, n in zip(middles, rounds.counts, strict=True)
    ]


def _percent(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)


def _phases(report: Report) -> dict[str, Any]:
    """Seconds of ramp that do not count, by cell index; side by side the slices begin after it."""
    spec = report.experiment.spec_json.get("workloads") or {}
    beside = {method.workload for method in report.methods if method.side_by_side}
    return {
        str(i): workload["ramp"]
        for i, cell in enumerate(report.comparison.cells)
        if isinstance(workload := spec.get(cell.workload), dict)
        and workload.get("ramp")
        and cell.workload not in beside
    }

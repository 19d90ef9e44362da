"""What happened inside the trials: operations per second, and memory over time, from the raw files.

A trial that ran alone has a point a second. Side by side the points come from its slices, over the time that the load
spent on it: a second of the arm, not of the clock.

Raw files may be gone (cleaned, or left on another machine): what cannot be read is counted and said.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.errors import TrialError
from perfrunner.measure.client import merge_reports, parse_report
from perfrunner.measure.samples import Sample, parse_samples
from perfrunner.report.charts.style import (
    ARMS,
    FAINT,
    legend_columns,
    legend_height,
    number_axis,
    panels,
)
from perfrunner.report.charts.turns import Turn, rate_points, read_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from perfrunner.analysis import Cell
    from perfrunner.analysis.cells import CellBlocks
    from perfrunner.results import ExperimentData, TrialRecord

Points = list[tuple[float, float]]


@dataclass
class RawSeries:
    """The series of the trials that count, and what could not be read."""

    rates: dict[Cell, dict[str, list[Points]]] = field(default_factory=dict)
    memory: dict[Cell, dict[str, list[dict[str, Points]]]] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    trials: int = 0


def read_series(data: ExperimentData, cells: Sequence[CellBlocks]) -> RawSeries:
    """Read the raw files of every trial that counts."""
    raw = RawSeries()
    for blocks in cells:
        for trial in blocks.trials:
            if not trial.raw_dir:
                continue
            raw.trials += 1
            try:
                _read(raw, blocks.cell, trial, _directory(data, trial))
            except (OSError, TrialError, UnicodeDecodeError) as error:
                raw.problems.append(f"{trial.raw_dir}: {error}")
    return raw


def rate_chart(raw: RawSeries, variants: Sequence[str]) -> Figure | None:
    """A thin line a trial, a thick one for their median."""
    cells = [cell for cell, arms in raw.rates.items() if any(arms.values())]
    if not cells:
        return None
    figure, all_axes = panels(
        len(cells), 2.0, legend=legend_height(len(variants), legend_columns(variants))
    )
    handles: dict[str, Any] = {}
    for axes, cell in zip(all_axes, cells, strict=True):
        for index, variant in enumerate(variants):
            trials = raw.rates[cell].get(variant, [])
            colour = ARMS[index % len(ARMS)]
            for points in trials:
                axes.plot(*zip(*points, strict=True), color=colour, linewidth=0.6, alpha=0.35)
            if trials:
                t, middle, _, _ = across(trials)
                (drawn,) = axes.plot(t, middle, color=colour, linewidth=1.8)
                handles.setdefault(variant, drawn)
        axes.set_title(str(cell))
        axes.set_ylim(bottom=0)
        number_axis(axes.yaxis)
    since = "of load on the arm" if raw.turns else "since the load began"
    figure.supxlabel(f"seconds {since} (thin: trials, thick: their median)", fontsize=8.5)
    figure.supylabel("operations per second", fontsize=8.5)
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside upper center",
        ncols=legend_columns(variants),
    )
    return figure


STYLES: dict[str, Any] = {"RSS": "-", "mapped": (0, (5, 2)), "mem_used": (0, (1, 1.4))}


def memory_chart(raw: RawSeries, variants: Sequence[str]) -> Figure | None:
    """RSS (without lazily freed pages), mapped and mem_used: median over trials, and their range."""
    from matplotlib.lines import Line2D

    cells = [cell for cell, arms in raw.memory.items() if any(arms.values())]
    if not cells:
        return None
    figure, all_axes = panels(
        len(cells), 2.4, legend=legend_height(len(variants) + len(STYLES), legend_columns(variants))
    )
    seen: set[str] = set()
    arms: dict[str, str] = {}
    for axes, cell in zip(all_axes, cells, strict=True):
        for index, variant in enumerate(variants):
            trials = raw.memory[cell].get(variant, [])
            for kind, style in STYLES.items():
                curves = [kinds[kind] for kinds in trials if kind in kinds]
                if not curves:
                    continue
                seen.add(kind)
                colour = arms.setdefault(variant, ARMS[index % len(ARMS)])
                t, middle, low, high = across(curves)
                axes.plot(t, middle, color=colour, linestyle=style, linewidth=1.4)
                axes.fill_between(t, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.set_title(str(cell))
        axes.set_ylim(bottom=0)
        number_axis(axes.yaxis)
    handles = [Line2D([], [], color=c, label=v) for v, c in arms.items()]
    handles += [
        Line2D([], [], color=FAINT, linestyle=style, label=kind)
        for kind, style in STYLES.items()
        if kind in seen
    ]
    figure.supxlabel(
        "seconds since the first sample (line: median of the trials, band: their range)",
        fontsize=8.5,
    )
    figure.supylabel("bytes", fontsize=8.5)
    figure.legend(handles=handles, loc="outside upper center", ncols=legend_columns(variants))
    return figure


def across(curves: Sequence[Points]) -> tuple[Any, Any, Any, Any]:
    """(t, median, lowest, highest) over curves, at the instants of the longest one.

    Beyond its own end a curve has no say.
    """
    import numpy as np

    t = np.array([x for x, _ in max(curves, key=len)], dtype=np.float64)
    lines = []
    for curve in curves:
        x, y = (np.array(values, dtype=np.float64) for values in zip(*curve, strict=True))
        lines.append(np.interp(t, x, y, np.nan, np.nan))
    table = np.array(lines)
    known = ~np.isnan(table).all(axis=0)
    t, table = t[known], table[:, known]
    return t, np.nanmedian(table, axis=0), np.nanmin(table, axis=0), np.nanmax(table, axis=0)


def _directory(data: ExperimentData, trial: TrialRecord) -> Path:
    path = Path(trial.raw_dir)
    if path.is_absolute():
        return path
    if data.directory is None:
        raise TrialError("the store is a remote database: raw files are not with it")
    return Path(data.directory) / path


def _read(raw: RawSeries, cell: Cell, trial: TrialRecord, directory: Path) -> None:
    if not directory.is_dir():
        raise TrialError("the directory is gone")
    variant = trial.variant
    for path in sorted(directory.glob("samples*.jsonl")):
        samples = parse_samples(path.read_text(), path.name)
        if samples:
            kinds = _memory(samples)
            raw.memory.setdefault(cell, {}).setdefault(variant, []).append(kinds)
    turn = read_turn(directory, cell, trial)
    if turn is not None:
        raw.turns.append(turn)
        points = rate_points(turn.slices)
        raw.rates.setdefault(cell, {}).setdefault(variant, []).append(points)
        return
    reports = [
        parse_report(path.read_text(), path.name) for path in sorted(directory.glob("client*.json"))
    ]
    if reports:
        drive = merge_reports(reports).drive
        points = (
            [] if drive is None else [(s.t, s.ops / s.width) for s in drive.series if s.width > 0]
        )
        if points:
            raw.rates.setdefault(cell, {}).setdefault(variant, []).append(points)


def _memory(samples: list[Sample]) -> dict[str, Points]:
    start = samples[0].t
    kinds: dict[str, Points] = {"RSS": [(s.t - start, float(s.rss_true)) for s in samples]}
    for kind, key in (("mapped", "total_heap_bytes"), ("mem_used", "mem_used")):
        points = [(s.t - start, v) for s in samples if (v := s.stat_value(key)) is not None]
        if points:
            kinds[kind] = points
    return kinds

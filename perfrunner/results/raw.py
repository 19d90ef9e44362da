"""The raw files of the trials: operations per second and memory over time, latencies, slices.

A trial that ran alone has a point a second. Side by side the points come from its slices, over the time that the load
spent on it: a second of the arm, not of the clock.

Raw files may be gone (cleaned, or left on another machine): what cannot be read is counted and said.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from perfrunner.errors import TrialError
from perfrunner.measure.client import Phase, Second, merge_reports, parse_report
from perfrunner.measure.histogram import Histogram
from perfrunner.measure.samples import Sample, parse_samples
from perfrunner.results.files import raw_files
from perfrunner.results.slices import Turn, rate_points, read_turn

if TYPE_CHECKING:
    from perfrunner.analysis import Cell
    from perfrunner.analysis.cells import CellBlocks
    from perfrunner.results.records import ExperimentData, TrialRecord

KINDS = {  # of memory, and where STAT memory has it
    "mapped": "total_heap_bytes",
    "resident": "total_resident_bytes",
    "allocated": "total_allocated_bytes",
    "mem_used": "mem_used",
    "payload": "ep_kv_size",
}

Points = list[tuple[float, float]]


PHASES = {"append": ("load", "update")}  # of a tool; all others:
OTHER_PHASES = ("populate", "access")


@dataclass(frozen=True)
class Before:
    """What the load did before the phase that is measured: its name, how long, and operations a second."""

    name: str
    seconds: float
    rate: float


@dataclass(frozen=True)
class Inside:
    """One trial: (seconds, operations a second); each kind of memory as (seconds, bytes); latencies by operation."""

    cell: Cell
    trial: TrialRecord
    rates: Points
    memory: tuple[dict[str, Points], ...]  # by engine node
    latency: Mapping[str, Histogram]
    before: Before | None = None
    phase: str = ""  # that is measured, and that the rates are of
    sampled_with_load: bool = False  # whether the seconds of `memory` are those of `rates`


@dataclass
class RawSeries:
    """The series of the trials that count, and what could not be read."""

    inside: list[Inside] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    trials: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be drawn, as a sentence."""
        if not self.problems:
            return ()
        many = f"{len(self.problems)} of {self.trials} trials"
        return (f"the raw series of {many} cannot be read (first: {self.problems[0]})",)

    @property
    def rates(self) -> dict[Cell, dict[str, list[Points]]]:
        """By cell and variant, of the trials that have any."""
        found: dict[Cell, dict[str, list[Points]]] = {}
        for one in self.inside:
            if one.rates:
                found.setdefault(one.cell, {}).setdefault(one.trial.variant, []).append(one.rates)
        return found

    @property
    def memory(self) -> dict[Cell, dict[str, list[dict[str, Points]]]]:
        """By cell and variant; an entry a trial and engine node."""
        found: dict[Cell, dict[str, list[dict[str, Points]]]] = {}
        for one in self.inside:
            if one.memory:
                found.setdefault(one.cell, {}).setdefault(one.trial.variant, []).extend(one.memory)
        return found


def read_series(data: ExperimentData, cells: Sequence[CellBlocks]) -> RawSeries:
    """Read the raw files of every trial that counts."""
    raw = RawSeries()
    for blocks in cells:
        for trial in blocks.trials:
            if not trial.raw_dir:
                continue
            raw.trials += 1
            try:
                _read(raw, blocks.cell, trial, raw_files(data, trial.raw_dir))
            except OSError as error:  # its own text has the whole path
                name = Path(error.filename).name if error.filename else "raw files"
                raw.problems.append(f"{trial.raw_dir}: {name}: {error.strerror}")
            except (TrialError, UnicodeDecodeError) as error:
                raw.problems.append(f"{trial.raw_dir}: {error}")
    return raw


def _read(raw: RawSeries, cell: Cell, trial: TrialRecord, files: Mapping[str, Path]) -> None:
    nodes = [
        parse_samples(files[name].read_text(), name)
        for name in sorted(fnmatch.filter(files, "samples*.jsonl"))
    ]
    memory = tuple(_memory(samples) for samples in nodes if samples)
    reports = [
        parse_report(files[name].read_text(), name)
        for name in sorted(fnmatch.filter(files, "client*.json"))
    ]
    client = merge_reports(reports) if reports else None
    drive = client.drive if client else None
    names = PHASES.get(client.tool, OTHER_PHASES) if client else OTHER_PHASES
    prepared = client.prepare if client and client.prepare else _populated(files)
    before = None
    if prepared is not None and prepared.seconds > 0:
        before = Before(names[0], prepared.seconds, prepared.ops / prepared.seconds)
    turn = read_turn(files, cell, trial)
    if turn is not None:
        raw.turns.append(turn)
        rates = rate_points(turn.slices)
    else:
        rates = [] if drive is None else _rates(drive.series)
    latency = {} if drive is None else drive.latency
    # Samples begin with the phase that is measured, but with the first one where a tool has phases of its own; side by
    # side they go by the clock, and rates by the arm's own turns.
    together = turn is None and names == OTHER_PHASES
    raw.inside.append(Inside(cell, trial, rates, memory, latency, before, names[1], together))


def _populated(files: Mapping[str, Path]) -> Phase | None:
    """Of a program of its own that filled the engine before; it is no series, and may be missing."""
    reports = [
        parse_report(files[name].read_text(), name)
        for name in sorted(fnmatch.filter(files, "populate*.json"))
    ]
    return merge_reports(reports).prepare if reports else None


def _rates(series: Sequence[Second]) -> Points:
    """The last interval ends with the load: of some microseconds it is no rate."""
    usual = median([point.width for point in series]) if series else 0.0
    return [(p.t, p.ops / p.width) for p in series if p.width > 0 and p.width >= usual / 2]


def _memory(samples: list[Sample]) -> dict[str, Points]:
    start = samples[0].t
    kinds: dict[str, Points] = {"RSS": [(s.t - start, float(s.rss_true)) for s in samples]}
    for kind, key in KINDS.items():
        points = [(s.t - start, v) for s in samples if (v := s.stat_value(key)) is not None]
        if points:
            kinds[kind] = points
    return kinds

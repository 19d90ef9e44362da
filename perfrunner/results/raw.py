"""Read the raw files of trials: throughput and memory over time, latencies, slices, CPU profiles.

A trial that ran alone has a point per second. An interleaved trial has points from its slices, over the time
that the load spent on it. Raw files may be missing (cleaned, or on another machine); unreadable files are
counted and reported.
"""

from __future__ import annotations

import errno
import fnmatch
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from perfrunner.domain import known_fields
from perfrunner.errors import TrialError
from perfrunner.measure.client import ClientReport, Histogram, Second, parse_reports
from perfrunner.measure.cpu_profile import Folded, parse_folded
from perfrunner.measure.memory import Sample, parse_samples
from perfrunner.measure.slices import Slices, read_slices
from perfrunner.results.files import raw_files
from perfrunner.text import all_harmless

if TYPE_CHECKING:
    from perfrunner.domain import Case
    from perfrunner.results.records import ExperimentData, TrialRecord


SLICES_FILE = "slices.json"
# Seconds of a bin; short bins are used if there are fewer long ones than FEW.
LONG, SHORT = 1.0, 0.1
FEW = 10


@dataclass(frozen=True)
class TrialSlices:
    """The slices of one variant in one block."""

    case: Case
    block: int
    group: int
    variant: str
    slices: Slices


def read_trial_slices(files: Mapping[str, Path], trial: TrialRecord) -> TrialSlices | None:
    """Return the slices of a trial; None for a trial that ran alone.

    Raises TrialError or OSError if an interleaved trial has no readable slices.
    """
    if "context" in trial.facts:  # of a benchmark program, whose own report has the rounds
        return None
    if trial.facts.get("schedule") != "interleaved" and SLICES_FILE not in files:
        return None
    return TrialSlices(trial.case, trial.block, trial.group, trial.variant, slices_in(files))


def slices_in(files: Mapping[str, Path]) -> Slices:
    """Return the slices among the raw files of a trial. Raises TrialError or OSError without a readable round."""
    path = files.get(SLICES_FILE)
    if path is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), SLICES_FILE)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TrialError(f"{SLICES_FILE}: not JSON ({error})") from None
    if not isinstance(document, dict):
        raise TrialError(f"{SLICES_FILE}: no slices")
    slices = read_slices(document, SLICES_FILE)
    if not len(slices.ops):
        raise TrialError(f"{SLICES_FILE}: it holds no round")
    return slices


def rate_points(slices: Slices) -> list[tuple[float, float]]:
    """Return (seconds of load, operations per second) of a variant, over the time that it had load."""
    ends = np.cumsum(slices.wall_ns) * 1e-9
    width = LONG if ends[-1] >= FEW * LONG else SHORT
    bins = ((ends - slices.wall_ns * 0.5e-9) / width).astype(np.int64)
    ops = np.bincount(bins, slices.ops)
    seconds = np.bincount(bins, slices.wall_ns * 1e-9)
    whole = seconds >= width / 2  # the last bin is usually a partial one
    if not whole.any():
        return [(float(ends[-1]), float(slices.ops.sum() / ends[-1]))]
    return [(float((n + 1) * width), float(ops[n] / seconds[n])) for n in np.flatnonzero(whole)]


KINDS = {  # kinds of memory, and their keys in STAT memory
    "mapped": "total_heap_bytes",
    "resident": "total_resident_bytes",
    "allocated": "total_allocated_bytes",
    "mem_used": "mem_used",
    "payload": "ep_kv_size",
}

Points = list[tuple[float, float]]


PHASES = {"append": ("load", "update")}  # names of a tool's phases; all other tools:
OTHER_PHASES = ("populate", "access")


@dataclass(frozen=True)
class Before:
    """The phase before the measured one: its name, duration and operations per second."""

    name: str
    seconds: float
    rate: float


@dataclass(frozen=True)
class Inside:
    """The series of one trial: rates as (seconds, operations per second), memory as (seconds, bytes), latencies.

    `latency` is by operation.
    """

    case: Case
    trial: TrialRecord
    rates: Points
    memory: tuple[dict[str, Points], ...]  # by engine node
    latency: Mapping[str, Histogram]
    before: Before | None = None
    phase: str = ""  # the measured phase, to which the rates belong
    sampled_with_load: bool = False  # whether `memory` and `rates` have the same time axis


@dataclass
class RawSeries:
    """The series of the trials that count, and the problems met while reading them."""

    inside: list[Inside] = field(default_factory=list)
    trial_slices: list[TrialSlices] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    trials: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence about the series that cannot be drawn, if any."""
        if not self.problems:
            return ()
        many = f"{len(self.problems)} of {self.trials} trials"
        return (f"the raw series of {many} cannot be read (first: {self.problems[0]})",)

    @property
    def rates(self) -> dict[Case, dict[str, list[Points]]]:
        """The rates by case and variant, of the trials that have any."""
        by_case: dict[Case, dict[str, list[Points]]] = {}
        for trial in self.inside:
            if trial.rates:
                by_case.setdefault(trial.case, {}).setdefault(trial.trial.variant, []).append(
                    trial.rates
                )
        return by_case

    @property
    def memory(self) -> dict[Case, dict[str, list[dict[str, Points]]]]:
        """The memory by case and variant, with an entry per trial and engine node."""
        by_case: dict[Case, dict[str, list[dict[str, Points]]]] = {}
        for trial in self.inside:
            if trial.memory:
                by_case.setdefault(trial.case, {}).setdefault(trial.trial.variant, []).extend(
                    trial.memory
                )
        return by_case


def read_series(data: ExperimentData, trials: Iterable[TrialRecord]) -> RawSeries:
    """Read the raw files of these trials, which are those that count."""
    raw = RawSeries()
    for trial in trials:
        if not trial.raw_dir:
            continue
        raw.trials += 1
        try:
            _read(raw, trial, raw_files(data, trial.raw_dir))
        except OSError as error:  # the error's own text contains the whole path
            name = Path(error.filename).name if error.filename else "raw files"
            raw.problems.append(f"{trial.raw_dir}: {name}: {error.strerror}")
        except (TrialError, UnicodeDecodeError) as error:
            raw.problems.append(f"{trial.raw_dir}: {error}")
    return raw


def _read(raw: RawSeries, trial: TrialRecord, files: Mapping[str, Path]) -> None:
    nodes = [
        parse_samples(files[name].read_text(), name)
        for name in sorted(fnmatch.filter(files, "samples*.jsonl"))
    ]
    memory = tuple(_memory(samples) for samples in nodes if samples)
    client = _report(files, "client*.json")
    drive = client.drive if client else None
    names = PHASES.get(client.tool, OTHER_PHASES) if client else OTHER_PHASES
    # A separate program may have filled the engine before; its report is not a series, and may be missing.
    filler = client if client and client.prepare else _report(files, "populate*.json")
    prepared = filler.prepare if filler else None
    before = None
    if prepared is not None and prepared.seconds > 0:
        before = Before(names[0], prepared.seconds, prepared.ops / prepared.seconds)
    loaded = read_trial_slices(files, trial)
    if loaded is not None:
        raw.trial_slices.append(loaded)
        rates = rate_points(loaded.slices)
    else:
        rates = [] if drive is None else _rates(drive.series)
    latency = {} if drive is None else drive.latency
    # Samples begin with the measured phase, except for tools with their own phases, where they begin with the first
    # one. In interleaved trials samples follow the clock, and rates the variant's own slices.
    together = loaded is None and names == OTHER_PHASES
    raw.inside.append(Inside(trial.case, trial, rates, memory, latency, before, names[1], together))


def _report(files: Mapping[str, Path], pattern: str) -> ClientReport | None:
    """Return the report of all processes whose files match, if there are any."""
    texts = {name: files[name].read_text() for name in sorted(fnmatch.filter(files, pattern))}
    return parse_reports(texts) if texts else None


def _rates(series: Sequence[Second]) -> Points:
    """Return the points of the rates. The last interval ends with the load; a very short one has no useful rate."""
    usual = median([point.width for point in series]) if series else 0.0
    return [(p.t, p.ops / p.width) for p in series if p.width > 0 and p.width >= usual / 2]


def _memory(samples: list[Sample]) -> dict[str, Points]:
    start = samples[0].t
    kinds: dict[str, Points] = {"RSS": [(s.t - start, float(s.rss_true)) for s in samples]}
    for kind, key in KINDS.items():
        points = [(s.t - start, v) for s in samples if (v := s.stat.get(key)) is not None]
        if points:
            kinds[kind] = points
    return kinds


PROFILE_FACT = "profile"  # name of the fact of a trial
PROFILE_FILE = "profile.folded"


@dataclass(frozen=True)
class TrialProfile:
    """Tell how perf recorded a trial.

    `event` is what perf sampled, `frequency` is in Hz, `cut_short` tells whether recording ended before the load
    did. `counters` are the counted hardware events; empty if the host counts none.
    """

    event: str = ""
    frequency: int = 0
    samples: int = 0
    cut_short: bool = False
    counters: Mapping[str, float] = field(default_factory=dict)


def trial_profile(trial: TrialRecord) -> TrialProfile | None:
    """Return how a trial was recorded; None if its workload does not have `profile: perf`."""
    recorded = trial.facts.get(PROFILE_FACT)
    return TrialProfile(**known_fields(TrialProfile, recorded)) if recorded else None


def read_profile(data: ExperimentData, trial: TrialRecord) -> Folded:
    """Return the stacks of a trial. Raises TrialError if there are none, or if the file is not on this machine."""
    if data.directory is None and not data.contents:
        raise TrialError("the archive does not contain its stacks")
    try:
        path = raw_files(data, trial.raw_dir)[PROFILE_FILE]
        stacks = parse_folded(all_harmless(path.read_text(encoding="utf-8")), PROFILE_FILE)
    except KeyError:
        raise TrialError(f"{trial.raw_dir} has no {PROFILE_FILE}") from None
    except OSError as error:
        raise TrialError(f"{trial.raw_dir}/{PROFILE_FILE}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TrialError(f"{trial.raw_dir}/{PROFILE_FILE}: {error}") from error
    if not stacks.samples:
        raise TrialError(f"the profile of {trial.variant} has no samples (lengthen the load)")
    return stacks

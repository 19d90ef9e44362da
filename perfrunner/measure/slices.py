"""Compute one rate per trial: from the slices of an interleaved load, or from the seconds of a load that ran alone.

perfrunner/workloads/metrics.py stores the rate as `ops_per_s`; perfrunner/analysis/estimate.py computes its interval.

`levels` is a robust estimate over rounds, paired within them. `steady_window` selects the steady seconds of a phase:
the ramp is fixed in the spec and equal for all variants, because a detector of steadiness would depend on the compared
metric. A partial last second never counts.

The report of a group has each variant's own report and its slices. Schema version 1 (engine_src/load/README.md,
"Groups"). Rounds are complete: the n-th slice of every variant belongs to the n-th round. Times are in nanoseconds;
`start_ns` counts from the first measured round.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfrunner.errors import TrialError
from perfrunner.measure.client import SCHEMA, ClientReport, Second, report_of

# Share of rounds cut off at each end, so that little more than the median remains. A persistent engine's slices have
# two levels, with and without the flusher on the CPU: a mean of the middle 60 % depends on their shares, a median not.
# On the quickstart's rounds the half-widths were ±3.1 and ±1.0 %; on ephemeral buckets ±0.9 and ±1.0 %.
DEFAULT_TRIM = 0.45


def levels(
    rates: NDArray[np.float64], baseline: int, trim: float = DEFAULT_TRIM
) -> NDArray[np.float64]:
    """Return one level per variant in the unit of `rates`, robust against rare slices disturbed from outside.

    `rates` has a row per round and a column per variant, with the rate or the time per operation of each
    slice, all > 0. `baseline` is the column that the others are compared with; `trim` is the share of rounds
    left out at each end (0 <= trim < 0.5).

    The baseline's level is the trimmed geometric mean of its own slices. Another variant's level is that
    times the trimmed geometric mean of its ratios to the baseline of the same round. So level / baseline
    level is the paired estimate, which excludes changes from round to round.
    """
    rates = np.asarray(rates, dtype=np.float64)
    if rates.ndim != 2 or rates.size == 0:
        raise ValueError(f"rates of shape {rates.shape}: expected (rounds, variants), neither zero")
    rounds, variants = rates.shape
    if not 0 <= baseline < variants:
        raise ValueError(f"baseline {baseline} is none of {variants} variants")
    if not 0 <= trim < 0.5:
        raise ValueError(f"trim {trim}: expected at least 0 and less than 0.5")
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise ValueError(f"a slice of {rounds} rounds yielded nothing, or no number")
    logs = np.log(rates)
    own = logs[:, baseline, np.newaxis]
    level: NDArray[np.float64] = np.exp(trimmed_mean(own, trim) + trimmed_mean(logs - own, trim))
    return level


def trimmed_mean(rows: NDArray[np.float64], trim: float) -> NDArray[np.float64]:
    """Return each column's mean without the share `trim` of its rows at each end, rounded down: scipy.stats.trim_mean.

    Importing scipy.stats would cost every run a second.
    """
    count = len(rows)
    cut = int(trim * count)
    kept = np.partition(rows, (cut, count - cut - 1), axis=0)[cut : count - cut]
    return np.asarray(kept.mean(axis=0))


SLOW = 2.0  # times a variant's median time per operation; slower slices count as slow
WAITED = 0.25  # share of a slice; if the load waited longer for a CPU, the host disturbed the slice
WAITS_FACT = "client_waits"  # fact of a trial: Slices.waits_share
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Slices:
    """The slices of one variant; every array has one entry per round. Arrays that are None were not reported.

    `cpu_ns` is CPU time of the server since the end of its previous slice; `own_cpu_ns` is the part of it in the slice
    itself, and `foreign_cpu_ns` what all other servers used in the slice.
    """

    start_ns: Integers
    wall_ns: Integers
    ops: Integers
    client_cpu_ns: Integers
    position: Integers
    cpu_ns: Integers | None = None
    client_delay_ns: Integers | None = None
    own_cpu_ns: Integers | None = None
    foreign_cpu_ns: Integers | None = None

    @property
    def rates(self) -> NDArray[np.float64]:
        """Operations per second of each slice."""
        return self.ops / (self.wall_ns * 1e-9)

    @property
    def total_rate(self) -> float:
        """Operations per second over all slices."""
        return float(self.ops.sum()) / (float(self.wall_ns.sum()) * 1e-9)

    @property
    def slow(self) -> NDArray[np.bool_]:
        """Which slices took more than SLOW times the variant's own median time per operation, or had no answer."""
        rates = self.rates
        result: NDArray[np.bool_] = rates < np.median(rates) / SLOW
        return result

    @property
    def slow_share(self) -> float:
        """The share of slow slices."""
        return float(np.mean(self.slow))

    @property
    def waits_share(self) -> float | None:
        """The share of slices in which the load waited for a CPU; None if the kernel does not report it."""
        if self.client_delay_ns is None:
            return None
        return float(np.mean(self.client_delay_ns > WAITED * self.wall_ns))

    def document(self) -> dict[str, Any]:
        """Return the arrays in the form stored with a trial."""
        return {
            name: None if value is None else value.tolist() for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class VariantLoad:
    """The part of one variant. `warmup_ops` precede the first measured round; the server counted them as well."""

    report: ClientReport
    report_text: str  # its JSON, as a tool with one server would have printed it
    slices: Slices
    warmup_ops: int
    warmup_misses: int
    warmup_errors: Mapping[str, int]
    idle_cpu_ns: int | None = None  # of the server, in `GroupLoad.idle_s`; None: not measured


@dataclass(frozen=True)
class GroupLoad:
    """The report of an interleaved load: its variants in the order of their slots."""

    tool: str
    slice: float  # seconds, or operations of `append`
    round_seed: int
    warmup_rounds: int
    rounds: int
    seconds: float
    variants: tuple[VariantLoad, ...]
    idle_s: float = 0.0  # before the first slice, without load

    def levels(self, baseline: int) -> list[float]:
        """Return the operations per second of each variant, robust over rounds."""
        return paired_levels([variant.slices for variant in self.variants], baseline)

    def totals(self) -> list[float]:
        """Return the operations per second of each variant over all slices. Raises TrialError if one has none."""
        rates = [variant.slices.total_rate for variant in self.variants]
        if not all(rates):
            raise TrialError(
                f"variant {rates.index(0.0) + 1} answered nothing in {self.rounds} rounds",
                hint="use a longer duration or a higher rate_limit",
            )
        return rates


def paired_levels(variants: Sequence[Slices], baseline: int) -> list[float]:
    """Return the operations per second of each variant, robust over rounds.

    A round in which a variant got no answer (a busy host took the CPU for longer than a slice) gives no ratio
    and is left out for all variants; the totals include it. Raises TrialError without a usable round.
    """
    rates = np.column_stack([slices.rates for slices in variants])
    answered = rates[(rates > 0).all(axis=1)]
    if not len(answered):
        raise TrialError(
            f"none of the {len(rates)} rounds has an answer for every variant",
            hint="use a less busy host or longer slices",
        )
    return [float(level) for level in levels(answered, baseline)]


def parse_group_load(text: str, where: str) -> GroupLoad:
    """Parse the report of a group. Raises TrialError, which names `where` and the problem."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise TrialError(f"{where}: not a report of a group of schema {SCHEMA}")
        group = document["group"]
        loaded = GroupLoad(
            tool=str(document["tool"]),
            slice=float(group["slice_ops"] if group.get("slice_s") is None else group["slice_s"]),
            round_seed=int(group["round_seed"]),
            warmup_rounds=int(group["warmup_rounds"]),
            rounds=int(group["rounds"]),
            seconds=float(group["seconds"]),
            idle_s=float(group.get("idle_s", 0.0)),
            variants=tuple(
                _variant(variant, f"{where}, variant {n}")
                for n, variant in enumerate(group["variants"], 1)
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrialError(f"{where}: not a report of a group: {error!r}") from None
    if document.get("interrupted"):
        raise TrialError(f"{loaded.tool} was interrupted before the end of its rounds")
    lengths = {len(variant.slices.ops) for variant in loaded.variants}
    if lengths != {loaded.rounds} or not loaded.rounds:
        raise TrialError(
            f"{where}: {loaded.rounds} rounds, but slices of {sorted(lengths)}",
            hint="the load must last for at least one complete round",
        )
    return loaded


def parse_variants(text: str, where: str, variants: int) -> list[str]:
    """Return each variant's checked JSON of a run without slices, as a tool with one server prints it.

    Raises TrialError, which names `where` and the problem.
    """
    try:
        document = json.loads(text)
        reports = [variant["report"] for variant in document["group"]["variants"]]
    except (ValueError, KeyError, TypeError) as error:
        raise TrialError(f"{where}: not a report of a group: {error!r}") from None
    if document.get("interrupted"):
        raise TrialError(f"{document.get('tool')} was interrupted before its end")
    if len(reports) != variants:
        raise TrialError(f"{where}: reports of {len(reports)} variants instead of {variants}")
    for n, report in enumerate(reports, 1):
        report_of(report, f"{where}, variant {n}")
    return [json.dumps(report, separators=(",", ":")) for report in reports]


def failed_variant(text: str) -> tuple[int | None, str]:
    """Return the variant (from 0) that ended a failed run, and the tool's message; (None, "") if unknown."""
    try:
        document = json.loads(text)
        variant = document.get("failed_variant")
        return (int(variant) if variant is not None else None, str(document.get("failure", "")))
    except (ValueError, TypeError, AttributeError):
        return None, ""


def read_slices(document: Mapping[str, Any], where: str) -> Slices:
    """Read the arrays of one variant. Raises TrialError if they do not match each other."""
    arrays = {name: _array(document.get(name), where, name) for name in _NAMES}
    for name in _REQUIRED:
        if arrays[name] is None:
            raise TrialError(f"{where}: `{name}` is missing")
    lengths = {len(array) for array in arrays.values() if array is not None}
    if len(lengths) != 1:
        raise TrialError(f"{where}: arrays of different lengths {sorted(lengths)}")
    slices = Slices(**{name: array for name, array in arrays.items() if array is not None})
    if len(slices.ops) and (np.min(slices.ops) < 0 or np.min(slices.wall_ns) <= 0):
        raise TrialError(f"{where}: a slice with no duration or a negative number of operations")
    return slices


_REQUIRED = ("start_ns", "wall_ns", "ops", "client_cpu_ns", "position")
_NAMES = (*_REQUIRED, "cpu_ns", "client_delay_ns", "own_cpu_ns", "foreign_cpu_ns")


def _array(values: Sequence[int] | None, where: str, name: str) -> Integers | None:
    if values is None:
        return None
    array = np.asarray(values, dtype=np.int64)
    if array.ndim != 1:
        raise TrialError(f"{where}: `{name}` is not a list of numbers")
    return array


def _variant(document: Mapping[str, Any], where: str) -> VariantLoad:
    warmup = document.get("warmup") or {}
    errors = {str(kind): int(n) for kind, n in (warmup.get("errors") or {}).items()}
    idle_cpu = document.get("idle_cpu_ns")
    return VariantLoad(
        report=report_of(document["report"], where),
        report_text=json.dumps(document["report"], separators=(",", ":")),
        slices=read_slices(document["slices"], where),
        warmup_ops=int(warmup.get("ops", 0)),
        warmup_misses=int(warmup.get("misses", 0)),
        warmup_errors=errors,
        idle_cpu_ns=None if idle_cpu is None else int(idle_cpu),
    )


WHOLE = 0.9  # an interval shorter than this is a partial second
EARLY = 0.05  # seconds of timer jitter allowed at the end of the ramp
SLOPE_LIMIT = 0.10  # share of the mean; a larger drift over the window adds a note to the trial
# Facts of a trial, from which the analysis judges whether it was long enough:
LOAD_FACT = "load_s"  # seconds of load on the variant that counted
PARTS_FACT = "load_parts_s"  # of its parts that have separate rates: {"before": s, ...}
OPS_FACT = "latency_ops"  # operations that were timed, by kind: {"get": n, "set": n}
BUSY_FACT = "client_busy"  # utilisation of the busiest load thread; 1: saturated
SLOPE_POINTS = 5  # fewer points cannot show a drift


@dataclass(frozen=True)
class Window:
    """Operations per second over the steady seconds. `slope` is the fitted change over the window / mean."""

    seconds: int
    mean: float
    p90: float
    slope: float | None

    @property
    def drifts(self) -> bool:
        """True if the rate changes over the window by more than SLOPE_LIMIT."""
        return self.slope is not None and abs(self.slope) > SLOPE_LIMIT


def steady_window(series: Sequence[Second], ramp_s: float) -> Window:
    """Return the window of a series. Raises TrialError if no whole second is left after the ramp."""
    steady = [s for s in series if s.t - s.width >= ramp_s - EARLY and s.width >= WHOLE]
    if not steady:
        raise TrialError(
            f"no whole second of {len(series)} is left after a ramp of {ramp_s:g} s",
            hint="set the workload's duration to some seconds more than its ramp",
        )
    rates = np.array([s.ops / s.width for s in steady])
    return Window(
        seconds=len(steady),
        mean=float(rates.mean()),
        p90=float(np.percentile(rates, 90)),
        slope=_slope(np.array([s.t for s in steady]), rates),
    )


def _slope(times: NDArray[np.float64], rates: NDArray[np.float64]) -> float | None:
    if len(rates) < SLOPE_POINTS or not rates.mean():
        return None
    per_second = float(np.polyfit(times, rates, 1)[0])
    return per_second * float(times[-1] - times[0]) / float(rates.mean())

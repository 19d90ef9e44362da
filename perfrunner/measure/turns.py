"""What a load tool reported of an ensemble: for each arm its own report, and its slices, round by round.

Schema version 1 (engine_src/load/README.md, "Ensembles"). Rounds are whole: the n-th slice of every arm belongs to the
n-th round. Times are nanoseconds; `start_ns` counts from the first measured round.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfrunner.errors import TrialError
from perfrunner.measure.client import SCHEMA, ClientReport, report_of
from perfrunner.measure.rounds import levels

SLOW = 2.0  # times an arm's median time per operation: beyond it a slice is a slow one
WAITED = 0.25  # of a slice's length: when the load waited for a CPU for longer, the slice is also the host's
WAITS_FACT = "client_waits"  # of a trial: Slices.waits_share
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Slices:
    """An arm's turns; every array has one entry a round. `cpu_ns` and `client_delay_ns` only where something told."""

    start_ns: Integers
    wall_ns: Integers
    ops: Integers
    client_cpu_ns: Integers
    position: Integers
    cpu_ns: Integers | None = None
    client_delay_ns: Integers | None = None

    @property
    def rates(self) -> NDArray[np.float64]:
        """Operations a second of each slice."""
        return self.ops / (self.wall_ns * 1e-9)

    @property
    def slow(self) -> NDArray[np.bool_]:
        """Which slices took beyond SLOW times the arm's own median time per operation, or were not answered at all."""
        rates = self.rates
        found: NDArray[np.bool_] = rates < np.median(rates) / SLOW
        return found

    @property
    def slow_share(self) -> float:
        """How many of all slices are slow, as a share."""
        return float(np.mean(self.slow))

    @property
    def waits_share(self) -> float | None:
        """In how many of all slices the load waited for a CPU, as a share; None where the kernel does not say."""
        if self.client_delay_ns is None:
            return None
        return float(np.mean(self.client_delay_ns > WAITED * self.wall_ns))

    def document(self) -> dict[str, Any]:
        """As it is kept with a trial."""
        return {
            name: None if value is None else value.tolist() for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class ArmTurns:
    """One arm. `warmup_ops` came before the first measured round: the server counted them too."""

    report: ClientReport
    report_text: str  # its JSON, as a tool with one server would have printed it
    slices: Slices
    warmup_ops: int
    warmup_misses: int
    warmup_errors: Mapping[str, int]


@dataclass(frozen=True)
class Turns:
    """The arms in the order of their slots."""

    tool: str
    slice: float  # seconds, or operations of `append`
    round_seed: int
    warmup_rounds: int
    rounds: int
    seconds: float
    arms: tuple[ArmTurns, ...]

    def levels(self, baseline: int) -> list[float]:
        """Operations a second of each arm, robust over rounds (measure/rounds.py)."""
        return paired_levels([arm.slices for arm in self.arms], baseline)


def paired_levels(arms: Sequence[Slices], baseline: int) -> list[float]:
    """Operations a second of each arm, robust over rounds. TrialError when no round says anything.

    A round in which some arm was not answered at all (a busy host took the CPU for longer than a slice) gives no ratio
    and is left out, for all arms alike; the totals have it.
    """
    rates = np.column_stack([slices.rates for slices in arms])
    answered = rates[(rates > 0).all(axis=1)]
    if not len(answered):
        raise TrialError(
            f"in none of {len(rates)} rounds every arm was answered",
            hint="the host is too busy, or the slice too short",
        )
    return [float(level) for level in levels(answered, baseline)]


def parse_turns(text: str, where: str) -> Turns:
    """Raises TrialError naming `where` and what is wrong."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise TrialError(f"{where}: no report of an ensemble of schema {SCHEMA}")
        found = document["ensemble"]
        turns = Turns(
            tool=str(document["tool"]),
            slice=float(found["slice_ops"] if found.get("slice_s") is None else found["slice_s"]),
            round_seed=int(found["round_seed"]),
            warmup_rounds=int(found["warmup_rounds"]),
            rounds=int(found["rounds"]),
            seconds=float(found["seconds"]),
            arms=tuple(_arm(arm, f"{where}, arm {n}") for n, arm in enumerate(found["arms"], 1)),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TrialError(f"{where}: no report of an ensemble: {error!r}") from None
    if document.get("interrupted"):
        raise TrialError(f"{turns.tool} was interrupted before the end of its rounds")
    lengths = {len(arm.slices.ops) for arm in turns.arms}
    if lengths != {turns.rounds} or not turns.rounds:
        raise TrialError(
            f"{where}: {turns.rounds} rounds, but slices of {sorted(lengths)}",
            hint="the load must last for one whole round at least",
        )
    return turns


def parse_arms(text: str, where: str, arms: int) -> list[str]:
    """Of a run without slices each arm's JSON, checked, as a tool with one server prints it.

    Raises TrialError naming `where` and what is wrong.
    """
    try:
        document = json.loads(text)
        found = [arm["report"] for arm in document["ensemble"]["arms"]]
    except (ValueError, KeyError, TypeError) as error:
        raise TrialError(f"{where}: no report of an ensemble: {error!r}") from None
    if document.get("interrupted"):
        raise TrialError(f"{document.get('tool')} was interrupted before its end")
    if len(found) != arms:
        raise TrialError(f"{where}: {len(found)} arms of {arms}")
    for n, one in enumerate(found, 1):
        report_of(one, f"{where}, arm {n}")
    return [json.dumps(one, separators=(",", ":")) for one in found]


def failed_arm(text: str) -> tuple[int | None, str]:
    """Which arm (from 0) ended a run that failed, and what the tool said of it; (None, "") where it does not say."""
    try:
        document = json.loads(text)
        arm = document.get("failed_arm")
        return (int(arm) if arm is not None else None, str(document.get("failure", "")))
    except (ValueError, TypeError, AttributeError):
        return None, ""


def read_slices(document: Mapping[str, Any], where: str) -> Slices:
    """The arrays of one arm; TrialError where they do not fit each other."""
    arrays = {name: _array(document.get(name), where, name) for name in _NAMES}
    for name in _REQUIRED:
        if arrays[name] is None:
            raise TrialError(f"{where}: `{name}` is missing")
    lengths = {len(array) for array in arrays.values() if array is not None}
    if len(lengths) != 1:
        raise TrialError(f"{where}: arrays of different lengths {sorted(lengths)}")
    slices = Slices(**{name: array for name, array in arrays.items() if array is not None})
    if len(slices.ops) and (int(slices.ops.min()) < 0 or int(slices.wall_ns.min()) <= 0):
        raise TrialError(f"{where}: a slice without time, or with less than no operation")
    return slices


_REQUIRED = ("start_ns", "wall_ns", "ops", "client_cpu_ns", "position")
_NAMES = (*_REQUIRED, "cpu_ns", "client_delay_ns")


def _array(values: Sequence[int] | None, where: str, name: str) -> Integers | None:
    if values is None:
        return None
    array = np.asarray(values, dtype=np.int64)
    if array.ndim != 1:
        raise TrialError(f"{where}: `{name}` is no list of numbers")
    return array


def _arm(document: Mapping[str, Any], where: str) -> ArmTurns:
    warmup = document.get("warmup") or {}
    errors = {str(kind): int(n) for kind, n in (warmup.get("errors") or {}).items()}
    return ArmTurns(
        report=report_of(document["report"], where),
        report_text=json.dumps(document["report"], separators=(",", ":")),
        slices=read_slices(document["slices"], where),
        warmup_ops=int(warmup.get("ops", 0)),
        warmup_misses=int(warmup.get("misses", 0)),
        warmup_errors=errors,
    )

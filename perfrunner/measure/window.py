"""The steady window of a driven phase: which seconds count, their mean, their 90th percentile, their slope.

The ramp is fixed in the spec, the same for every arm; there is no detector of steadiness (it would look at the
compared metric). A partial last second never counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfrunner.errors import TrialError
from perfrunner.measure.client import Second

WHOLE = 0.9  # an interval shorter than this is a partial second
EARLY = 0.05  # seconds of jitter a timer may have at the ramp's edge
SLOPE_LIMIT = 0.10  # a drift over the window beyond this share of the mean is a note on the trial
# Facts of a trial, for whoever judges whether it was long enough:
LOAD_FACT = "load_s"  # seconds of load on the arm that counted
PARTS_FACT = "load_parts_s"  # of its parts that have a rate of their own: {"before": s, ...}
OPS_FACT = "latency_ops"  # operations that were timed, by kind: {"get": n, "set": n}
BUSY_FACT = "client_busy"  # how busy the busiest load thread was; 1: saturated
SLOPE_POINTS = 5  # fewer points say nothing about a drift


@dataclass(frozen=True)
class Window:
    """Operations per second over the steady seconds. `slope` is the fitted change over the window / mean."""

    seconds: int
    mean: float
    p90: float
    slope: float | None

    @property
    def drifts(self) -> bool:
        return self.slope is not None and abs(self.slope) > SLOPE_LIMIT


def steady_window(series: Sequence[Second], ramp_s: float) -> Window:
    """Raises TrialError when no whole second is left after the ramp."""
    steady = [s for s in series if s.t - s.width >= ramp_s - EARLY and s.width >= WHOLE]
    if not steady:
        raise TrialError(
            f"no whole second is left of {len(series)} after a ramp of {ramp_s:g} s",
            hint="make the workload's duration longer than its ramp by some seconds",
        )
    rates = np.array([s.ops / s.width for s in steady])
    return Window(
        seconds=len(steady),
        mean=float(rates.mean()),
        p90=float(np.percentile(rates, 90)),
        slope=_slope(np.array([s.t for s in steady]), rates),
    )


def _slope(times: np.ndarray, rates: np.ndarray) -> float | None:
    if len(rates) < SLOPE_POINTS or not rates.mean():
        return None
    per_second = float(np.polyfit(times, rates, 1)[0])
    return per_second * float(times[-1] - times[0]) / float(rates.mean())

"""Select the steady window of a driven phase and compute its mean, 90th percentile and slope.

The ramp is fixed in the spec and equal for all variants; a detector of steadiness would depend on the
compared metric. A partial last second never counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfrunner.errors import TrialError
from perfrunner.measure.client import Second

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


def _slope(times: np.ndarray, rates: np.ndarray) -> float | None:
    if len(rates) < SLOPE_POINTS or not rates.mean():
        return None
    per_second = float(np.polyfit(times, rates, 1)[0])
    return per_second * float(times[-1] - times[0]) / float(rates.mean())

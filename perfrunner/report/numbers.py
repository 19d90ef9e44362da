"""How numbers are written. k, M and G are powers of 1000.

All values of a metric are written in one scale, chosen by the baseline's, so that they can be
compared by eye.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfrunner.analysis import Row, Summary
    from perfrunner.analysis.model import Interval
    from perfrunner.spec.metrics import MetricType

PREFIXED = ("ops/s", "items/s", "B", "B/s")  # units that take k, M, G
TIMES = ("ns", "us", "ms", "s")
ARROWS = {"higher": "↑", "lower": "↓", "none": "·"}
MARKS = {"better": "✔", "worse": "✘", "same": "=", "unsure": "?", "invalid": "!"}
TIMES_SIGN, DIVIDE_SIGN = "\N{MULTIPLICATION SIGN}", "\N{DIVISION SIGN}"
LARGE_RATIO = 1.5  # beyond it a factor reads better than a percentage


@dataclass(frozen=True)
class Scale:
    """Divide by `factor`, write `unit` after it."""

    factor: float
    unit: str
    joint: str = " "  # what stands between the number and the unit

    def number(self, value: float, digits: int = 4) -> str:
        """The value in this scale, without the unit."""
        return significant(value / self.factor, digits)

    def text(self, value: float) -> str:
        """The value with its unit."""
        return f"{self.number(value)}{self.joint}{self.unit}".rstrip()


def mean_text(summary: Summary, scale: Scale) -> str:
    """The mean with its unit, in as many digits as its interval deserves (at least two, at most four)."""
    return f"{_mean(summary, scale)}{scale.joint}{scale.unit}".rstrip()


def _mean(summary: Summary, scale: Scale) -> str:
    half, mean = summary.half_width, summary.mean
    if not half or not mean:
        return scale.number(mean)
    digits = math.floor(math.log10(abs(mean))) - math.floor(math.log10(half)) + 2
    return scale.number(mean, min(4, max(2, digits)))


def scale_of(metric: MetricType, reference: float) -> Scale:
    """The scale in which `reference` has one to four digits before the point."""
    size, unit = abs(reference), metric.unit
    if unit in PREFIXED:
        for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if size >= factor:
                if unit.startswith("B"):
                    return Scale(factor, prefix + unit)
                return Scale(factor, f"{prefix} {unit}", joint="")
    if unit in TIMES:
        factor = 1.0
        place = TIMES.index(unit)
        while size / factor >= 10_000 and place + 1 < len(TIMES):
            factor *= 1000
            place += 1
        return Scale(factor, TIMES[place].replace("us", "µs"))
    return Scale(1.0, unit)


def scale_for(row: Row, rows: Sequence[Row]) -> Scale:
    """The common scale of a metric's rows: by the first (the baseline), or where that is 0 by the largest.

    A value more than a thousand times smaller has a scale of its own: it would lose its digits.
    """
    means = [other.summary.mean for other in rows]
    reference = means[0] or max(means, key=abs)
    mean = row.summary.mean
    if mean and abs(mean) < abs(reference) / 1000:
        reference = mean
    return scale_of(row.metric, reference)


def significant(value: float, digits: int = 4) -> str:
    """`digits` significant digits, never in exponent form; whole numbers keep all of theirs."""
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{value:.{max(0, decimals)}f}"
    return minus(text)


def minus(text: str) -> str:
    """A real minus sign instead of the hyphen."""
    return text.replace("-", "\N{MINUS SIGN}")


def spread(summary: Summary, metric: MetricType, scale: Scale) -> str:
    """The half-width of the interval: in percent of the mean, or in the metric's own unit, as exact as the mean."""
    half = summary.half_width
    if half is None:
        return "± ?"
    if metric.effect == "ratio" and summary.mean:
        return f"± {significant(100 * half / abs(summary.mean), 2)} %"
    places = len(_mean(summary, scale).partition(".")[2])
    rounded = f"{half / scale.factor:.{places}f}"
    return f"± {rounded if float(rounded) else significant(half / scale.factor, 1)}"


class Estimated(Protocol):
    """The part of an effect that is written (an Effect, or a run's estimate so far)."""

    @property
    def kind(self) -> str: ...
    @property
    def estimate(self) -> float: ...
    @property
    def ci95(self) -> Interval | None: ...


def change(effect: Estimated, metric: MetricType, scale: Scale) -> str:
    """The estimate with its interval: `+1.1 % [+0.6, +1.6]`, or a factor when it is large."""
    if effect.kind == "ratio":
        return _ratio(effect)
    unit = "pt" if metric.unit == "%" else scale.unit
    bounds = None if effect.ci95 is None else _scaled(effect.ci95, 1 / scale.factor)
    return _signed(effect.estimate / scale.factor, bounds, unit)


def percent_change(ratio: float) -> str:
    """A ratio as the change in percent, for a sentence."""
    return minus(f"{(ratio - 1) * 100:+.1f} %")


def _ratio(effect: Estimated) -> str:
    """In percent; as a factor (or, below 1, as what it is divided by) when it is large."""
    value, bounds = effect.estimate, effect.ci95
    low, high = bounds or (value, value)
    if low >= 1 / LARGE_RATIO and high <= LARGE_RATIO and 1 / LARGE_RATIO <= value <= LARGE_RATIO:
        percent = None if bounds is None else ((low - 1) * 100, (high - 1) * 100)
        return _signed((value - 1) * 100, percent, "%")
    if value >= 1 or high >= 1:
        sign = TIMES_SIGN
    else:
        sign, value, low, high = DIVIDE_SIGN, 1 / value, 1 / high, 1 / low
    inside = "" if bounds is None else f" [{factor(low)}, {factor(high)}]"
    return f"{sign}{factor(value)}{inside}"


def factor(value: float) -> str:
    """`2.13`, `200,197`."""
    return f"{value:,.0f}" if value >= 1000 else significant(value, 3)


def _signed(value: float, bounds: Interval | None, unit: str) -> str:
    if bounds is None:
        return f"{minus(f'{value:+.2f}')} {unit}"
    places = decimals((bounds[1] - bounds[0]) / 2)
    low, high = (signed(b, places) for b in bounds)
    return f"{signed(value, places)} {unit} [{low}, {high}]"


def signed(value: float, places: int) -> str:
    """`+1.2`, with a real minus sign; zero has none."""
    text = f"{value:+.{places}f}"
    return minus(text if float(text) else text.replace("-", "+"))


def decimals(half: float | None) -> int:
    """Places after the point that an interval of this half-width deserves: one digit of it, one place to three.

    None where it is 10 or more.
    """
    if half is None or half <= 0:
        return 1
    if half >= 10:
        return 0
    return min(3, max(1, -math.floor(math.log10(half))))


def _scaled(interval: Interval, factor: float) -> Interval:
    return interval[0] * factor, interval[1] * factor


def p_text(name: str, value: float | None) -> str:
    """`q=.003`, `q<.001`."""
    if value is None:
        return f"{name}=?"
    if value < 0.001:
        return f"{name}<.001"
    if value >= 0.9995:
        return f"{name}=1"
    return f"{name}=" + f"{value:.3f}".lstrip("0")


def verdict_text(row: Row) -> str:
    """The mark and the word; `small` beside a change within the margin."""
    if row.verdict is None:
        return "·" if row.effect is not None else ""
    text = f"{MARKS[row.verdict]} {row.verdict}"
    if row.small:
        text += " (small)"
    return text


def more_text(row: Row) -> str:
    """How many more blocks would settle an unsure row."""
    if row.verdict != "unsure":
        return ""
    return "more will not do" if row.more_blocks is None else f"~{row.more_blocks} more"

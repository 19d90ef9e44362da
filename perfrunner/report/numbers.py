"""Format numbers, changes and intervals for all reports, and shorten and wrap names for narrow output.

k, M and G are powers of 1000. All values of a metric are written in one scale, chosen by the baseline's, so that they
can be compared by eye. Shortened names stay distinct.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfrunner.analysis.model import Interval, Row, Summary
    from perfrunner.spec.metrics import MetricType

PREFIXED = ("ops/s", "items/s", "B", "B/s")  # units that take k, M, G
TIMES = ("ns", "us", "ms", "s")
ARROWS = {"higher": "↑", "lower": "↓", "none": "·"}
MARKS = {"better": "✔", "worse": "✘", "same": "=", "unsure": "?", "not comparable": "!"}
TIMES_SIGN, DIVIDE_SIGN = "\N{MULTIPLICATION SIGN}", "\N{DIVISION SIGN}"
EXACT = "[exact]"  # instead of an interval that is narrower than the last digit of its value
MOST_FACTOR = 1e12  # beyond it a factor only says that the blocks differ wildly
LARGE_RATIO = 1.5  # beyond it a factor reads better than a percentage


@dataclass(frozen=True)
class Scale:
    """The unit in which values are written: a value is divided by `factor` and followed by `unit`."""

    factor: float
    unit: str
    joint: str = " "  # separator of number and unit

    def number(self, value: float, digits: int = 4) -> str:
        """Return the value in this scale, without the unit."""
        return significant(value / self.factor, digits)

    def text(self, value: float) -> str:
        """Return the value with its unit."""
        return f"{self.number(value)}{self.joint}{self.unit}".rstrip()

    def prefixed(self, value: float, digits: int = 4) -> str:
        """Return the value without the unit, but with its prefix (`71.8k`)."""
        return f"{self.number(value, digits)}{'' if self.joint else self.unit.partition(' ')[0]}"

    def span(self, low: float, high: float) -> str:
        """Return both ends as `prefixed` (`71.8k … 110k`)."""
        return f"{self.prefixed(low)} … {self.prefixed(high)}"


def mean_text(summary: Summary, scale: Scale) -> str:
    """Return the mean with its unit, in as many digits as its interval justifies (two to four)."""
    return f"{_mean(summary, scale)}{scale.joint}{scale.unit}".rstrip()


def _mean(summary: Summary, scale: Scale) -> str:
    half, mean = summary.half_width, summary.mean
    if not half or not mean:
        return scale.number(mean)
    digits = math.floor(math.log10(abs(mean))) - math.floor(math.log10(half)) + 2
    return scale.number(mean, min(4, max(2, digits)))


def scale_of(metric: MetricType, reference: float) -> Scale:
    """Return the scale in which `reference` has one to four digits before the point."""
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
    """Return the common scale of a metric's rows, from the baseline (the first row) or, if that is 0, the largest.

    A value more than a thousand times smaller gets a separate scale: it would lose its digits.
    """
    means = [other.summary.mean for other in rows]
    reference = means[0] or max(means, key=abs)
    mean = row.summary.mean
    if mean and abs(mean) < abs(reference) / 1000:
        reference = mean
    return scale_of(row.metric, reference)


def significant(value: float, digits: int = 4) -> str:
    """Return `digits` significant digits, never in exponent form; whole numbers keep all digits."""
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{value:.{max(0, decimals)}f}"
    return minus(text)


def minus(text: str) -> str:
    """Replace hyphens by real minus signs."""
    return text.replace("-", "\N{MINUS SIGN}")


def spread(summary: Summary, metric: MetricType, scale: Scale) -> str:
    """Return the half-width of the interval in percent of the mean, or in the metric's unit."""
    half = summary.half_width
    if half is None:
        return "± ?"
    if metric.effect == "ratio" and summary.mean:
        return f"± {significant(100 * half / abs(summary.mean), 2)} %"
    places = len(_mean(summary, scale).partition(".")[2])
    rounded = f"{half / scale.factor:.{places}f}"
    return f"± {rounded if float(rounded) else significant(half / scale.factor, 1)}"


class Estimated(Protocol):
    """An estimate that can be written: an `Effect`, or the estimate of a run in progress."""

    @property
    def kind(self) -> str: ...
    @property
    def estimate(self) -> float: ...
    @property
    def ci95(self) -> Interval | None: ...


def change(effect: Estimated, metric: MetricType, scale: Scale) -> str:
    """Return the estimate with its interval: `+1.1 % [+0.6, +1.6]`, or a factor if it is large."""
    if effect.kind == "ratio":
        return _ratio(effect)
    unit = "pt" if metric.unit == "%" else scale.unit
    bounds = None if effect.ci95 is None else _scaled(effect.ci95, 1 / scale.factor)
    return _signed(effect.estimate / scale.factor, bounds, unit)


def change_of(row: Row) -> str:
    """Return the change of a row in the scale of its own mean; empty without an effect."""
    if row.effect is None:
        return ""
    return change(row.effect, row.metric, scale_of(row.metric, row.summary.mean))


def is_large(rows: Iterable[Row]) -> bool:
    """Return whether factors read better than percentages for the changes of the rows together."""
    effects = [row.effect for row in rows if row.effect is not None and row.effect.kind == "ratio"]
    ends = [end for effect in effects for end in (effect.estimate, *(effect.ci95 or ()))]
    return any(end > LARGE_RATIO or end < 1 / LARGE_RATIO for end in ends)


def percent_change(ratio: float) -> str:
    """Return a ratio as a change in percent."""
    return f"{signed((ratio - 1) * 100, 1)} %"


def _ratio(effect: Estimated) -> str:
    """Return a ratio in percent, or as a factor or divisor if it is large."""
    value, bounds = effect.estimate, effect.ci95
    low, high = bounds or (value, value)
    if low >= 1 / LARGE_RATIO and high <= LARGE_RATIO and 1 / LARGE_RATIO <= value <= LARGE_RATIO:
        percent = None if bounds is None else ((low - 1) * 100, (high - 1) * 100)
        return _signed((value - 1) * 100, percent, "%")
    if value >= 1 or high >= 1:
        sign = TIMES_SIGN
    else:
        sign, value, low, high = DIVIDE_SIGN, 1 / value, 1 / high, 1 / low
    digits = factor_digits(value, low, high)
    shown = factor(value, digits)
    if bounds is None:
        return f"{sign}{shown}"
    inside = bracket(factor(low, digits), factor(high, digits), shown)
    return f"{sign}{without_zeros(shown) if inside == EXACT else shown} {inside}"


def factor(value: float, digits: int = 3) -> str:
    """Return a factor with its significant digits only: `2.13`, `200,000`, and beyond a million millions `4e+38`."""
    if not 1 / MOST_FACTOR < value < MOST_FACTOR:
        return minus(f"{value:.0e}")
    return f"{float(f'{value:.{digits}g}'):,.0f}" if value >= 1000 else significant(value, digits)


def factor_digits(value: float, low: float, high: float) -> int:
    """Return the digits of a factor: three, or four to tell the value from its interval and an end from 1."""
    rounded = any(factor(end) == factor(1.0) != factor(end, 4) for end in (low, high))
    return 4 if rounded or factor(low) == factor(value) == factor(high) else 3


def factor_steps(low: float, high: float) -> list[float]:
    """Return at least three ticks of a log axis, symmetric about 1: 1, 2, 5, 10 ..., or powers of ten."""
    decades = range(math.ceil(max(math.log10(high), -math.log10(low))) + 1)
    for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0)):
        above = [m * 10.0**d for d in decades for m in steps]
        ticks = [f for f in sorted({*above, *(1 / f for f in above)}) if low <= f <= high]
        if len(ticks) >= 3:
            break
    every = -(-len(ticks) // 7)
    first = ticks.index(1.0) % every if 1.0 in ticks else 0  # no change is always labelled
    return ticks[first::every]


def factor_label(value: float) -> str:
    """Return the label of a factor on an axis, as times or divided by."""
    shown, sign = (value, TIMES_SIGN) if value >= 1 else (1 / value, DIVIDE_SIGN)
    return f"{sign}{shown:,.3g}" if shown < 1000 else f"{sign}{shown:,.0f}"


def _signed(value: float, bounds: Interval | None, unit: str) -> str:
    if bounds is None:
        return f"{signed(value, 2)} {unit}"
    places = interval_places(bounds, abs(value))
    low, high = (signed(b, places) for b in bounds)
    shown = signed(value, places)
    inside = bracket(low, high, shown)
    number = without_zeros(shown) if inside == EXACT else shown
    return " ".join(part for part in (number, unit, inside) if part)


def bracket(low: str, high: str, value: str) -> str:
    """Return the interval of a value, or `[exact]` if it is narrower than the last digit."""
    return EXACT if low == value == high else f"[{low}, {high}]"


def without_zeros(text: str) -> str:
    """Strip trailing zeros: `48` for `48.00`."""
    return re.sub(r"\.0+$", "", text)


def signed(value: float, places: int) -> str:
    """Return a signed number with a real minus sign: `+1.2`; zero is never negative."""
    text = f"{value:+.{places}f}"
    return minus(text if float(text) else text.replace("-", "+"))


def decimals(half: float | None, size: float = 0.0) -> int:
    """Return the decimal places for an interval of this half-width: its first digit, one to three places.

    The result is 0 if the half-width is 10 or more. A value of this `size` gets at most four digits.
    """
    if half is None:
        return 1
    most = 3 if size < 1 else max(1, 3 - math.floor(math.log10(size)))
    if half <= 0:
        return min(2, most)
    if half >= 10:
        return 0
    return min(most, 3, max(1, -math.floor(math.log10(half))))


def interval_places(bounds: Interval, size: float = 0.0) -> int:
    """Return the decimal places of a change with its interval: `decimals`, or more if an end is rounded to zero.

    Then the interval would not show whether it includes zero.
    """
    least = decimals((bounds[1] - bounds[0]) / 2, size)
    enough = (p for p in range(least, 4) if all(not e or float(f"{e:.{p}f}") for e in bounds))
    return next(enough, least)


def _scaled(interval: Interval, factor: float) -> Interval:
    return interval[0] * factor, interval[1] * factor


def p_text(name: str, value: float | None) -> str:
    """Return a p-value as text: `q=.003`, `q<.001`."""
    if value is None:
        return f"{name}=?"
    if value < 0.001:
        return f"{name}<.001"
    if value >= 0.9995:
        return f"{name}=1"
    return f"{name}=" + f"{value:.3f}".lstrip("0")


def verdict_text(row: Row) -> str:
    """Return the mark and the verdict, followed by its qualifier."""
    if row.verdict is None:
        return f"·{row.qualifier}" if row.effect is not None else ""
    return f"{MARKS[row.verdict]} {row.verdict}{row.qualifier}"


def more_text(row: Row) -> str:
    """Return the number of further blocks that would settle an unsure row."""
    if row.verdict != "unsure":
        return ""
    return "more blocks do not help" if row.more_blocks is None else f"~{row.more_blocks} more"


LEAST_NAME = 5  # minimum columns of a shortened name: two ends, a gap and a number
WORDS = re.compile(r"(?<=[^\d\s] )|(?<=\d )(?!\d)")  # `10 000` is not split
# Where a metric id or a name may be broken.
SEAMS = re.compile(r"(?<=[/_,=+-])|(?<=[a-z])(?=[A-Z])")


def folded(text: str, width: int) -> str:
    """Wrap text to lines of at most `width` columns, where spaces and seams allow it."""
    lines, line = [], ""
    for word in WORDS.split(text):
        for piece in [word] if cell_len(word.rstrip()) <= width else SEAMS.split(word):
            if line and cell_len((line + piece).rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += piece
    return "\n".join([*lines, line])


def short_names(names: Sequence[str], room: int, gap: str = "…") -> dict[str, str]:
    """Shorten each name to at most `room` columns (at least 5); all results differ.

    The middle is cut first, because variants differ at their ends: `jemalloc-5.1.0,metadata_thp=always`
    becomes `jemal…always`. Names that would still be equal are numbered.
    """
    room = max(room, LEAST_NAME)
    shortened: dict[str, str] = {}
    taken = {name for name in names if len(name) <= room}
    for number, name in enumerate(names, 1):
        if name in taken:
            shortened[name] = name
            continue
        for text in (*_cut(name, room, gap), _numbered(name, room, gap, number)):
            if text not in taken:
                break
        shortened[name] = text
        taken.add(text)
    return shortened


def _cut(name: str, room: int, gap: str) -> list[str]:
    """Return candidates in order of preference: equal ends, a longer tail, a longer head."""
    letters = room - len(gap)
    heads = (letters // 2, letters // 4, letters * 3 // 4)
    return [f"{name[:head]}{gap}{name[len(name) - (letters - head) :]}" for head in heads]


def _numbered(name: str, room: int, gap: str, number: int) -> str:
    mark = f"{gap}{number}"
    return f"{name[: room - len(mark)]}{mark}"

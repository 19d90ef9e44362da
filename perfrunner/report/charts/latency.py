"""Draw latency by percentile and as a histogram, by variant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfrunner.measure.client import Histogram, merge_histograms
from perfrunner.report.charts.style import legend_columns, legend_height, panels, variant_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.domain import Case
    from perfrunner.results.raw import Inside


PERCENTILES = sorted({*range(2, 99, 2), *(100 - 10 ** -(n / 8) for n in range(-8, 17)), 50, 90, 99})
BARS_A_DECADE = 24

Curve = list[tuple[float, float]]


class Latencies(NamedTuple):
    """Latencies of an operation on a variant: `curve` has (percentile, µs), `bars` (µs at the middle, percent)."""

    variant: str
    op: str
    operations: int
    curve: Curve
    bars: Curve


def latencies(inside: Sequence[Inside], case: Case, variants: Sequence[str]) -> Iterator[Latencies]:
    """Yield latencies by variant and operation; percentiles cover all trials together and are never averaged."""
    for variant in variants:
        of_variant = [i.latency for i in inside if i.case == case and i.trial.variant == variant]
        for op in dict.fromkeys(op for latency in of_variant for op in latency):
            merged = merge_histograms(latency[op] for latency in of_variant if op in latency)
            if merged.count:
                curve = [(p, (merged.percentile_ns(p) or 0) / 1000) for p in PERCENTILES]
                yield Latencies(variant, op, merged.count, curve, _histogram_bars(merged))


def _histogram_bars(histogram: Histogram) -> Curve:
    """Return the bars of a histogram on a logarithmic axis, without gaps."""
    upper, counts = np.array(histogram.buckets, dtype=np.float64).T
    places = np.floor(np.log10(np.maximum(upper, 1)) * BARS_A_DECADE).astype(np.int64)
    first = int(places.min())
    shares = 100 * np.bincount(places - first, weights=counts) / histogram.count
    return [
        (10 ** ((index + 0.5) / BARS_A_DECADE) / 1000, float(share))
        for index, share in enumerate(shares, first)
    ]


LABELLED = (50, 90, 99, 99.9, 99.99)
STEPS = (1.0, 2.0, 5.0)  # of a decade, where there are few decades


def latency_chart(inside: Sequence[Inside], case: Case, variants: Sequence[str]) -> Figure | None:
    """Draw the chart; None if no load tool of the case recorded latencies."""
    by_op: dict[str, list[Latencies]] = {}
    for latency in latencies(inside, case, variants):
        by_op.setdefault(latency.op, []).append(latency)
    if not by_op:
        return None
    columns = legend_columns(variants)
    figure, axes = panels(2 * len(by_op), 2.1, legend=legend_height(len(variants), columns))
    for row, (op, shown) in enumerate(by_op.items()):
        curves, bars = axes[2 * row : 2 * row + 2]
        curves.set_title(op)
        for variant in shown:
            look = variant_line(variants.index(variant.variant))
            _curve(curves, variant, look)
            _bars(bars, variant, look)
        _percentile_axis(curves)
        _time_axis(curves.yaxis, [us for variant in shown for _, us in variant.curve])
        _time_axis(bars.xaxis, [us for variant in shown for us, _ in variant.bars])
        bars.set_ylim(bottom=0)
        curves.set_ylabel("latency")
        bars.set_ylabel("% of operations")
    axes[-2].set_xlabel("percentile")
    axes[-1].set_xlabel("latency")
    handles = {line.get_label(): line for ax in axes[::2] for line in ax.get_lines()}
    figure.legend(handles=list(handles.values()), loc="outside upper center", ncols=columns)
    return figure


def _curve(axes: Axes, variant: Latencies, look: dict[str, Any]) -> None:
    """Draw a curve over 1 / (share of slower operations), so that the tail is as wide as the rest."""
    x, y = zip(*((100 / (100 - percent), us) for percent, us in variant.curve), strict=True)
    axes.plot(x, y, label=variant.variant, linewidth=1.4, **look)


def _bars(axes: Axes, variant: Latencies, look: dict[str, Any]) -> None:
    half = 10 ** (0.5 / BARS_A_DECADE)
    edges = [variant.bars[0][0] / half, *(us * half for us, _ in variant.bars)]
    axes.stairs([share for _, share in variant.bars], edges, linewidth=1.1, **look)


def _percentile_axis(axes: Axes) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_xticks([100 / (100 - p) for p in LABELLED], [f"{p:g}" for p in LABELLED])
    axes.xaxis.set_minor_locator(NullLocator())


def _time_axis(axis: Any, microseconds: Sequence[float]) -> None:
    """Set up a logarithmic axis, labelled in µs, ms or s."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    (axis.axes.set_yscale if axis.axis_name == "y" else axis.axes.set_xscale)("log")
    decades = max(microseconds) / max(min(microseconds), 1e-3)
    axis.set_major_locator(LogLocator(subs=STEPS if decades < 300 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _time(value)))
    axis.set_minor_locator(NullLocator())


def _time(microseconds: float) -> str:
    for factor, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= factor:
            return f"{microseconds / factor:g} {unit}"
    return f"{microseconds:g} µs"

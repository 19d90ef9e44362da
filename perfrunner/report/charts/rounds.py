"""Draw the rounds of a case: each variant against the baseline of the same round, over time and as a distribution.

The left panel has the blocks in a row, in bins, with the estimate of each block. The right panel has all rounds, with
the robust level and the totals. Rounds spread many times wider than estimates of blocks, so the panels have
separate scales.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfrunner.measure.slices import levels
from perfrunner.report.charts.dots import wrapped
from perfrunner.report.charts.style import FAINT, GRID, INK, VARIANTS, draw_lines, new_figure
from perfrunner.report.numbers import minus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from perfrunner.domain import Case
    from perfrunner.measure.slices import Slices
    from perfrunner.results.raw import TrialSlices


Floats = NDArray[np.float64]
FEWEST, MOST = 4, 60  # bins of a block
ROUNDS_A_BIN = 8  # fewer would show only single rounds
NOISIER = 4.0  # ratio of noise of bins to blocks up to which both are visible on one axis
LEAST_REACH = 0.005


@dataclass(frozen=True)
class Pair:
    """A variant and the baseline of its group, round by round."""

    block: int
    base: Slices
    variant: Slices
    answered: NDArray[np.bool_]  # rounds in which every variant of the group had answers

    @property
    def log_ratios(self) -> Floats:
        """Return the log of the variant's rate over the baseline's for each answered round."""
        answered = self.answered
        ratios: Floats = np.log(self.variant.rates[answered] / self.base.rates[answered])
        return ratios

    @property
    def robust(self) -> float:
        """Return the block's robust estimate (as in measure/slices.py) as a log ratio."""
        rates = np.column_stack([self.base.rates, self.variant.rates])
        base, variant = levels(rates[self.answered], 0)
        return float(np.log(variant / base))

    @property
    def total(self) -> float:
        """Return the log ratio of the totals of all slices."""
        base, variant = (s.total_rate for s in (self.base, self.variant))
        return math.log(variant / base)

    @property
    def seconds(self) -> Floats:
        """Return the start of each round in seconds, unanswered ones included, from the first measured one."""
        first = np.minimum(self.base.start_ns, self.variant.start_ns)
        starts: Floats = (first - first[0]) * 1e-9
        return starts


def binned(compared: Sequence[Pair], over_all: int) -> list[tuple[Floats, Floats]]:
    """Return (share of the block's time, median log ratio) of binned rounds for each block, in at most `over_all` bins.

    There are fewer bins if single rounds are so noisy that they would hide the estimates of the blocks.
    """
    levels = [0.0, *(pair.robust for pair in compared)]
    reach = max(max(levels) - min(levels), LEAST_REACH)
    rounds = min(len(pair.variant.ops) for pair in compared)
    bins = max(FEWEST, min(MOST, over_all // len(compared), rounds // ROUNDS_A_BIN))
    while True:
        by_block = [_bins(pair, bins) for pair in compared]
        low, high = inner(np.concatenate([middles for _, middles in by_block]))
        if bins == FEWEST or high - low <= NOISIER * reach:
            return by_block
        bins = max(FEWEST, bins * 2 // 3)


def inner(middles: Floats) -> tuple[float, float]:
    """Return the range in which bins are drawn, without distant rare ones."""
    low, high = np.percentile(middles, [4, 96])
    return float(low), float(high)


def _bins(pair: Pair, bins: int) -> tuple[Floats, Floats]:
    share = pair.seconds / max(pair.seconds[-1], 1e-9)
    index = np.minimum((share[pair.answered] * bins).astype(np.int64), bins - 1)
    used = np.unique(index)
    ratios = pair.log_ratios
    middles: Floats = np.array([np.median(ratios[index == n]) for n in used])
    return (used + 0.5) / bins, middles


@dataclass(frozen=True)
class Spread:
    """All rounds of a variant as a histogram of log ratios; `beyond` is the share of outermost rounds left out."""

    counts: NDArray[np.int64]
    edges: Floats
    robust: float  # over the blocks
    total: float
    beyond: float


def spread(compared: Sequence[Pair], bars: int, reach: tuple[float, float] | None = None) -> Spread:
    """Return the histogram of a variant's rounds in all blocks; `reach`: range of bars (default: nearly all)."""
    ratios = np.concatenate([pair.log_ratios for pair in compared])
    robust = float(np.mean([pair.robust for pair in compared]))
    total = float(np.mean([pair.total for pair in compared]))
    outer = np.percentile(ratios, [0.5, 99.5])
    low = float(min(*outer, robust, total, -LEAST_REACH))
    high = float(max(*outer, robust, total, LEAST_REACH))
    counts, edges = np.histogram(ratios, bars, reach or (low, high))
    return Spread(counts, edges, robust, total, 1 - float(counts.sum()) / len(ratios))


def pairs(
    interleaved: Iterable[TrialSlices], case: Case, baseline: str, variant: str
) -> Iterator[Pair]:
    """Yield the pairs by block, without blocks whose rounds do not match or were mostly empty (a rate limit)."""
    groups: dict[tuple[int, int], dict[str, Slices]] = {}
    for trial in interleaved:
        if trial.case == case:
            groups.setdefault((trial.block, trial.group), {})[trial.variant] = trial.slices
    for (block, _), variants in sorted(groups.items()):
        if {baseline, variant} <= variants.keys() and len(
            {len(s.ops) for s in variants.values()}
        ) == 1:
            answered = np.all([s.ops > 0 for s in variants.values()], axis=0)
            if 2 * np.count_nonzero(answered) > len(answered):
                yield Pair(block, variants[baseline], variants[variant], answered)


BINS = 320  # over all blocks
MARKS = 60  # of slow slices, of one block at most
WIDE = 100.0  # percent; a wider range is drawn by factors, so that half and twice are symmetric
FACTORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
GAP = 0.06  # between two blocks, of a block's length
BARS = 60
HISTOGRAM = 0.54  # share of its panel; the rest is for text
MARK = 0.05  # height of a slow slice's mark, of the panel
MOST_BLOCK_LABELS = 20


def rounds_chart(
    interleaved: Sequence[TrialSlices], case: Case, variants: Sequence[str]
) -> Figure | None:
    """Draw the chart; None if no variant was interleaved with the baseline, the first of `variants`."""
    baseline = variants[0]
    by_variant = {v: list(pairs(interleaved, case, baseline, v)) for v in variants[1:]}
    by_variant = {v: compared for v, compared in by_variant.items() if compared}
    if not by_variant:
        return None
    figure = new_figure(1.55 * len(by_variant) + 1.15)
    grid = figure.subplots(len(by_variant), 2, squeeze=False, width_ratios=[2.6, 1])
    for (over_time, histogram), (variant, compared) in zip(grid, by_variant.items(), strict=True):
        colour = VARIANTS[variants.index(variant) % len(VARIANTS)]
        _over_time(over_time, compared, colour)
        _distribution(histogram, compared, colour)
        over_time.set_title(wrapped(variant, 60))
    grid[-1][0].set_xlabel(_time_label(by_variant))
    grid[-1][1].set_xlabel("every round (%)")
    figure.supylabel(f"change against {baseline} in the same round (%)", fontsize=8.5)
    _legend(figure)
    return figure


def _over_time(axes: Axes, compared: list[Pair], colour: str) -> None:
    places = max(1, min(MARKS, BINS // len(compared)))
    bins = binned(compared, BINS)
    reach = [*inner(np.concatenate([middles for _, middles in bins]))]
    ticks = []
    slow_variant: list[float] = []
    slow_base: list[float] = []
    curves, levels, totals = [], [], []
    for index, (pair, (instants, middles)) in enumerate(zip(compared, bins, strict=True)):
        left = index * (1 + GAP)
        share = pair.seconds / max(pair.seconds[-1], 1e-9)
        robust = _percent(pair.robust)
        curves.append(list(zip(left + instants, _percent(middles), strict=True)))
        levels.append([(left, robust), (left + 1, robust)])
        totals.append((left + 0.5, _percent(pair.total)))
        for slices, marks in ((pair.variant, slow_variant), (pair.base, slow_base)):
            slow = np.unique((share[slices.slow] * places).astype(np.int64))
            marks += [left + min((n + 0.5) / places, 1.0) for n in slow]
        reach += [pair.robust, pair.total]
        ticks.append((left + 0.5, str(pair.block)))
    draw_lines(axes, curves, colour, linewidth=0.8, alpha=0.6)
    draw_lines(axes, levels, INK, linewidth=1.8, zorder=4)
    axes.plot(*zip(*totals, strict=True), linestyle="", marker="D", markersize=4, zorder=5,
              markerfacecolor="none", markeredgecolor=INK, markeredgewidth=0.9)  # fmt: skip
    gaps = [index * (1 + GAP) - GAP / 2 for index in range(1, len(compared))]
    _marks(axes, gaps, 0.0, GRID, height=1.0, zorder=0)
    _marks(axes, slow_variant, 0.0, colour)
    _marks(axes, slow_base, 1.0 - MARK, FAINT)
    axes.axhline(0.0, color=FAINT, linewidth=0.9, zorder=1)
    low, high = min(*reach, 0.0), max(*reach, 0.0)
    room = 0.18 * max(high - low, 0.002)
    axes.set_ylim(_percent(low - room), _percent(high + room))
    axes.set_xlim(-GAP, len(compared) * (1 + GAP))
    step = -(-len(ticks) // MOST_BLOCK_LABELS)
    axes.set_xticks([x for x, _ in ticks[::step]], [label for _, label in ticks[::step]])
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    _ticks(axes.yaxis, *axes.get_ylim())


def _marks(
    axes: Axes, places: list[float], bottom: float, colour: str, *, height: float = MARK, zorder: float = 3,
) -> None:  # fmt: skip
    """Draw short vertical marks at the edge of the panel, as one path to keep the figure small."""
    x = [value for place in places for value in (place, place, math.nan)]
    y = [value for _ in places for value in (bottom, bottom + height, math.nan)]
    axes.plot(
        x, y, color=colour, linewidth=0.9, transform=axes.get_xaxis_transform(), zorder=zorder
    )


def _distribution(axes: Axes, compared: list[Pair], colour: str) -> None:
    histogram = spread(compared, BARS)
    counts, edges = histogram.counts, histogram.edges
    axes.stairs(counts, _percent(edges), fill=True, color=colour, alpha=0.35, linewidth=0)
    robust, total = _percent(histogram.robust), _percent(histogram.total)
    axes.axvline(0.0, ymax=HISTOGRAM, color=FAINT, linewidth=0.9, zorder=1)
    axes.axvline(robust, ymax=HISTOGRAM, color=INK, linewidth=1.6, zorder=4)
    axes.axvline(total, ymax=HISTOGRAM, color=INK, linewidth=1.1, linestyle=(0, (2, 1.6)), zorder=4)
    text = [f"robust {_signed(robust)}", f"totals {_signed(total)}", _slow(compared)]
    if histogram.beyond > 0:
        text.append(f"outer {100 * histogram.beyond:.2g} % not drawn")
    axes.set_ylim(0, max(counts) / (HISTOGRAM - 0.03))
    axes.text(0.02, 1.0, "\n".join(text), transform=axes.transAxes, va="top", fontsize=7,
              linespacing=1.25, zorder=6)  # fmt: skip
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.set_xlim(_percent(edges[0]), _percent(edges[-1]))
    _ticks(axes.xaxis, *axes.get_xlim())


def _slow(compared: list[Pair]) -> str:
    variant, base = (
        100 * float(np.mean(np.concatenate([slices.slow for slices in group])))
        for group in ([p.variant for p in compared], [p.base for p in compared])
    )
    return f"slow {variant:.2g} %, baseline {base:.2g} %"


def _percent(log_ratio: Any) -> Any:
    return 100.0 * np.expm1(log_ratio)


def _signed(value: float) -> str:
    return minus(f"{value:+.2f} %")


def _ticks(axis: Any, low: float, high: float) -> None:
    """Set the ticks in percent; distant ones are at factors."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    if high > WIDE:
        functions = (lambda x: np.log1p(np.maximum(x, -99.99) / 100.0), _percent)
        scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
        scale("function", functions=functions)
        places = [100.0 * (f - 1.0) for f in FACTORS]
        seen = [place for place in places if low <= place <= high]
        axis.set_major_locator(
            FixedLocator(seen[:: -(-len(seen) // 5)] if axis.axis_name == "x" else seen)
        )
    else:
        axis.set_major_locator(MaxNLocator(nbins=4, min_n_ticks=3))
    axis.set_major_formatter(FuncFormatter(lambda value, _: minus(f"{value:.4g}")))


def _time_label(by_variant: dict[str, list[Pair]]) -> str:
    seconds = [float(pair.seconds[-1]) for compared in by_variant.values() for pair in compared]
    rounds = [len(pair.variant.ops) for compared in by_variant.values() for pair in compared]
    return f"block (each {np.median(seconds):.3g} s, {int(np.median(rounds)):,} rounds)"


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    def line(label: str, **style: Any) -> Line2D:
        return Line2D([], [], label=label, **style)

    handles = [
        line("median of the rounds in a bin", color=FAINT, linewidth=0.9),
        line("block's estimate, robust", color=INK, linewidth=1.8),
        line("block's totals", color=INK, linestyle="", marker="D", markersize=4,
             markerfacecolor="none"),
        line("slow slices of the variant (below), of the baseline (above)", color=FAINT, linestyle="",
             marker="|", markersize=6),
        line("totals over blocks", color=INK, linewidth=1.1, linestyle=(0, (2, 1.6))),
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper center", ncols=3)

"""What the samplers cost: a trial of the baseline without them beside one with them.

One pair a cell cannot show a small cost. So its log ratio comes with an interval: +-t s around it, where s is what the
log ratio of two *sampled* trials spreads by. Where that holds "no cost", sampling costs nothing that this host could
show. The intervals of all cells and metrics of an experiment hold together with 95 % (Bonferroni): one at a time, some
of a dozen would always show something.

Side by side the two were one ensemble, so s is the standard deviation of what arms of one ensemble differ by: of the
paired log ratios to the baseline, each arm's around its own mean, pooled over arms. One after the other it is the
standard deviation of the logarithms of the cell's n sampled trials, times sqrt 2 (n - 1 degrees of freedom); that holds
the host's drift over the experiment too, which neighbours do not have: the interval is rather too wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.cells import CellBlocks, clean_blocks
from perfrunner.analysis.inference import t_critical
from perfrunner.analysis.model import CONFIDENCE, Cell, Interval

if TYPE_CHECKING:
    from perfrunner.results import ExperimentData


@dataclass(frozen=True)
class SamplingCost:
    """`ratio`: without samplers / with, and its interval; 1 is no cost."""

    cell: Cell
    metric: str
    ratio: float
    interval: Interval

    @property
    def visible(self) -> bool:
        return not self.interval[0] <= 1.0 <= self.interval[1]

    @property
    def floor(self) -> float:
        """The smallest cost that would show, as a share."""
        return self.interval[1] / self.ratio - 1


@dataclass(frozen=True)
class _Spread:
    """The standard deviation of the log ratio of two sampled trials, and its degrees of freedom."""

    sd: float
    freedom: int

    def half_width(self, confidence: float) -> float:
        return float(t_critical((1 - confidence) / 2, self.freedom)) * self.sd


def sampling_costs(data: ExperimentData) -> list[SamplingCost]:
    """Of every cell that was checked and has sampled trials enough; failed checks are left out."""
    records = data.experiment.facts.get("sampling_check") or []
    cells = clean_blocks(data.trials)
    found: list[tuple[Cell, str, float, _Spread]] = []
    for record in records:
        cell = Cell(str(record["workload"]), str(record["bucket"]))
        if record["status"] != "ok" or cell not in cells:
            continue
        spread = _paired_spread if record.get("side_by_side") else _unpaired_spread
        for metric, bare in record["bare"].items():
            sampled = record["sampled"].get(metric, 0.0)
            its = spread(cells[cell], metric, str(record["variant"]))
            if its is not None and min(bare, sampled) > 0:
                found.append((cell, metric, float(bare) / float(sampled), its))
    together = 1 - (1 - CONFIDENCE) / max(1, len(found))
    return [
        SamplingCost(cell, metric, ratio, _around(ratio, spread.half_width(together)))
        for cell, metric, ratio, spread in found
    ]


def failed_checks(facts: Mapping[str, Any]) -> Iterable[str]:
    """One line for each cell whose trial without samplers did not count."""
    for record in facts.get("sampling_check") or []:
        if record["status"] != "ok":
            cell = Cell(str(record["workload"]), str(record["bucket"]))
            yield f"what sampling costs is not known for {cell}: {record['reason']}"


def _around(ratio: float, half: float) -> Interval:
    return ratio * math.exp(-half), ratio * math.exp(half)


def _paired_spread(blocks: CellBlocks, metric: str, baseline: str) -> _Spread | None:
    """Of one paired log ratio; None where no arm has two blocks beside the baseline."""
    import numpy as np

    squares, freedom = 0.0, 0
    for variant in sorted({trial.variant for trial in blocks.trials} - {baseline}):
        paired = blocks.paired(metric, baseline, variant)
        if len(paired.base) < 2 or min(*paired.base.values(), *paired.other.values()) <= 0:
            continue
        logs = np.log([paired.other[b] / paired.base[b] for b in paired.base])
        squares += float(((logs - logs.mean()) ** 2).sum())
        freedom += len(logs) - 1
    return _Spread(math.sqrt(squares / freedom), freedom) if freedom else None


def _unpaired_spread(blocks: CellBlocks, metric: str, variant: str) -> _Spread | None:
    """Of the log ratio of two trials; None under two of them."""
    import numpy as np

    trials = list(blocks.values(metric, variant).values())
    if len(trials) < 2 or min(trials) <= 0:
        return None
    return _Spread(float(np.log(trials).std(ddof=1)) * math.sqrt(2), len(trials) - 1)

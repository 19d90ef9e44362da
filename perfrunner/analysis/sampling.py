"""What the samplers cost: a trial of the baseline without them beside one with them.

One pair a cell cannot show a small cost. So its ratio comes with the interval in which the ratio of two *sampled*
trials would fall (95 %). Inside it, sampling costs nothing that this host could show.

Side by side the two were one ensemble, so the interval is exp(+-t s) with s the standard deviation of what arms of one
ensemble differ by: of the paired log ratios to the baseline, each arm's around its own mean, pooled over arms.
One after the other it is exp(+-t s sqrt 2) with s the standard deviation of the logarithms of the cell's n sampled
trials and t with n - 1 degrees of freedom; that s holds the host's drift over the experiment too, which neighbours do
not have: the interval is rather too wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.cells import CellBlocks, clean_blocks
from perfrunner.analysis.model import CONFIDENCE, Cell, Interval

if TYPE_CHECKING:
    from perfrunner.results import ExperimentData


@dataclass(frozen=True)
class SamplingCost:
    """`ratio`: without samplers / with; `expected`: where the ratio of two sampled trials would fall (95 %)."""

    cell: Cell
    metric: str
    ratio: float
    expected: Interval

    @property
    def visible(self) -> bool:
        return not self.expected[0] <= self.ratio <= self.expected[1]

    @property
    def floor(self) -> float:
        """The smallest cost that would show, as a share."""
        return self.expected[1] - 1


def sampling_costs(data: ExperimentData) -> list[SamplingCost]:
    """Of every cell that was checked and has sampled trials enough; failed checks are left out."""
    records = data.experiment.facts.get("sampling_check") or []
    cells = clean_blocks(data.trials)
    found = []
    for record in records:
        cell = Cell(str(record["workload"]), str(record["bucket"]))
        if record["status"] != "ok" or cell not in cells:
            continue
        spread = _paired_spread if record.get("side_by_side") else _unpaired_spread
        for metric, bare in record["bare"].items():
            sampled = record["sampled"].get(metric, 0.0)
            half = spread(cells[cell], metric, str(record["variant"]))
            if half is not None and min(bare, sampled) > 0:
                expected = (math.exp(-half), math.exp(half))
                found.append(SamplingCost(cell, metric, float(bare) / float(sampled), expected))
    return found


def failed_checks(facts: Mapping[str, Any]) -> Iterable[str]:
    """One line for each cell whose trial without samplers did not count."""
    for record in facts.get("sampling_check") or []:
        if record["status"] != "ok":
            cell = Cell(str(record["workload"]), str(record["bucket"]))
            yield f"what sampling costs is not known for {cell}: {record['reason']}"


def _paired_spread(blocks: CellBlocks, metric: str, baseline: str) -> float | None:
    """Half of the interval of one paired log ratio; None where no arm has two blocks beside the baseline."""
    import numpy as np

    squares, freedom = 0.0, 0
    for variant in sorted({trial.variant for trial in blocks.trials} - {baseline}):
        paired = blocks.paired(metric, baseline, variant)
        if len(paired.base) < 2 or min(*paired.base.values(), *paired.other.values()) <= 0:
            continue
        logs = np.log([paired.other[b] / paired.base[b] for b in paired.base])
        squares += float(((logs - logs.mean()) ** 2).sum())
        freedom += len(logs) - 1
    return _t(freedom) * math.sqrt(squares / freedom) if freedom else None


def _unpaired_spread(blocks: CellBlocks, metric: str, variant: str) -> float | None:
    """Half of the interval of the log ratio of two trials; None under two of them."""
    import numpy as np

    trials = list(blocks.values(metric, variant).values())
    if len(trials) < 2 or min(trials) <= 0:
        return None
    return _t(len(trials) - 1) * float(np.log(trials).std(ddof=1)) * math.sqrt(2)


def _t(freedom: int) -> float:
    from scipy import stats

    return float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))

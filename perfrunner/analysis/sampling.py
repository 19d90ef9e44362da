"""What the samplers cost: the baseline's trial without them beside its trials with them.

One trial a cell cannot show a small cost. So its ratio to the sampled trials comes with the interval in which one more
*sampled* trial would fall (a prediction interval on the logarithms, t with n - 1 degrees of freedom: Hahn and Meeker,
Statistical Intervals, 2nd ed., 4.8): inside it, sampling costs nothing that this host could show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.cells import clean_blocks
from perfrunner.analysis.model import CONFIDENCE, Cell, Interval

if TYPE_CHECKING:
    from perfrunner.results import ExperimentData

MIN_SAMPLED = 2


@dataclass(frozen=True)
class SamplingCost:
    """`ratio`: without samplers / with; `expected`: where the ratio of one more sampled trial would fall (95 %)."""

    cell: Cell
    metric: str
    ratio: float
    expected: Interval

    @property
    def visible(self) -> bool:
        return not self.expected[0] <= self.ratio <= self.expected[1]


def sampling_costs(data: ExperimentData) -> list[SamplingCost]:
    """Of every cell that was checked and has sampled trials enough; failed checks are left out."""
    records = data.experiment.facts.get("sampling_check") or []
    cells = clean_blocks(data.trials)
    found = []
    for record in records:
        cell = Cell(str(record["workload"]), str(record["bucket"]))
        if record["status"] != "ok" or cell not in cells:
            continue
        for metric, value in record["metrics"].items():
            sampled = cells[cell].values(metric, str(record["variant"])).values()
            if len(sampled) >= MIN_SAMPLED and value > 0 and min(sampled) > 0:
                found.append(_cost(cell, metric, float(value), list(sampled)))
    return found


def failed_checks(facts: Mapping[str, Any]) -> Iterable[str]:
    """One line for each cell whose trial without samplers did not count."""
    for record in facts.get("sampling_check") or []:
        if record["status"] != "ok":
            cell = Cell(str(record["workload"]), str(record["bucket"]))
            yield f"what sampling costs is not known for {cell}: {record['reason']}"


def _cost(cell: Cell, metric: str, value: float, sampled: list[float]) -> SamplingCost:
    import numpy as np
    from scipy import stats

    logs = np.log(sampled)
    n = len(logs)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * logs.std(ddof=1) * math.sqrt(1 + 1 / n))
    return SamplingCost(
        cell=cell,
        metric=metric,
        ratio=math.exp(math.log(value) - float(logs.mean())),
        expected=(math.exp(-half), math.exp(half)),
    )

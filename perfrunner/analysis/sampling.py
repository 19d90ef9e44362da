"""What the samplers cost: a trial of the baseline without them beside its neighbour with them.

One pair a cell cannot show a small cost. So its ratio comes with the interval in which the ratio of two *sampled*
trials would fall: exp(+-t s sqrt 2), s the standard deviation of the logarithms of the experiment's n sampled trials,
t with n - 1 degrees of freedom. Inside it, sampling costs nothing that this host could show. s holds the host's drift
over the experiment too, which the neighbours do not have: the interval is rather too wide.
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
    """`ratio`: without samplers / with; `expected`: where the ratio of two sampled trials would fall (95 %)."""

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
        for metric, bare in record["bare"].items():
            trials = list(cells[cell].values(metric, str(record["variant"])).values())
            sampled = record["sampled"].get(metric, 0.0)
            if len(trials) >= MIN_SAMPLED and min(bare, sampled, *trials) > 0:
                found.append(_cost(cell, metric, float(bare) / float(sampled), trials))
    return found


def failed_checks(facts: Mapping[str, Any]) -> Iterable[str]:
    """One line for each cell whose trial without samplers did not count."""
    for record in facts.get("sampling_check") or []:
        if record["status"] != "ok":
            cell = Cell(str(record["workload"]), str(record["bucket"]))
            yield f"what sampling costs is not known for {cell}: {record['reason']}"


def _cost(cell: Cell, metric: str, ratio: float, trials: list[float]) -> SamplingCost:
    import numpy as np
    from scipy import stats

    logs = np.log(trials)
    t = stats.t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1)
    half = float(t * logs.std(ddof=1) * math.sqrt(2))
    return SamplingCost(cell, metric, ratio, (math.exp(-half), math.exp(half)))

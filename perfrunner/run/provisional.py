"""What a run knows while it runs: of each cell the first primary metric, over the blocks that are whole.

For whoever watches, and marked as provisional: nothing is decided by it (the precision rule looks at widths only), and
the report takes all trials again from the store. What a trial adds is kept as it comes; only the cell whose block
became whole is estimated anew, and of it one metric.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from perfrunner.run import events as ev
from perfrunner.run.plan.schedule import BlockCell, Task
from perfrunner.spec.cell import CellName
from perfrunner.spec.model import Spec

FEWEST_BLOCKS = 2  # below it there is no interval, and a number without one misleads


class Ended(Protocol):
    """The part of a trial that matters here (a TrialResult or a stored TrialRecord)."""

    @property
    def status(self) -> str: ...
    @property
    def metrics(self) -> Mapping[str, float]: ...


@dataclass
class _Pairs:
    """An arm's values beside the baseline's of its own ensemble, by block."""

    base: dict[int, float] = field(default_factory=dict)
    other: dict[int, float] = field(default_factory=dict)


@dataclass
class SoFar:
    """Of one run. `add` each trial that ended, `whole` when a cell of a block counts."""

    spec: Spec
    _open: dict[BlockCell, tuple[int, dict[tuple[str, int], float]]] = field(default_factory=dict)
    _pairs: dict[CellName, dict[str, _Pairs]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(_Pairs))
    )

    def add(self, task: Task, trial: Ended) -> None:
        """Of a block's cell only the latest attempt can count."""
        attempt, values = self._open.get(task.cell, (task.attempt, {}))
        if attempt != task.attempt:
            values = {}
        value = trial.metrics.get(self._metric(task.workload))
        if trial.status == "ok" and value is not None:
            values[task.arm] = value
        self._open[task.cell] = (task.attempt, values)

    def whole(self, cell: BlockCell) -> ev.Provisional | None:
        """The cell's estimates with this block; None where it tells nothing yet."""
        _, values = self._open.pop(cell, (0, {}))
        pairs = self._pairs[cell.workload, cell.bucket]
        for (variant, ensemble), value in values.items():
            base = values.get((self.spec.baseline, ensemble))
            if variant != self.spec.baseline and base is not None:
                pairs[variant].base[cell.block] = base
                pairs[variant].other[cell.block] = value
        enough = {v: pairs[v] for v in self.spec.variants if len(pairs[v].base) >= FEWEST_BLOCKS}
        return self._estimated(cell, enough) if enough else None

    def _estimated(self, cell: BlockCell, pairs: Mapping[str, _Pairs]) -> ev.Provisional | None:
        from perfrunner.analysis.estimate import NotARatioError, Pairing, paired_effects
        from perfrunner.spec.metrics import metric_type

        metric = metric_type(self._metric(cell.workload))
        asked = [Pairing(metric.effect, p.base, p.other, margin=0.0) for p in pairs.values()]
        found = paired_effects(self.spec.baseline, asked)
        estimates = tuple(
            ev.Estimate(variant, effect.n, effect.kind, effect.estimate, effect.ci95)
            for variant, effect in zip(pairs, found, strict=True)
            if not isinstance(effect, NotARatioError)
        )
        where = (cell.workload, cell.bucket)
        return ev.Provisional(where, metric.id, estimates) if estimates else None

    def _metric(self, workload: str) -> str:
        """The first primary metric that the workload can have."""
        its = self.spec.workloads[workload]
        return next((m for m in self.spec.primary if its.may_give(m)), self.spec.primary[0])

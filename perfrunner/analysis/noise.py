"""The noise floor of a host: what two names of one build seem to differ by, where nothing differs.

For each cell and metric of an A/A experiment the floor is the smallest change that so many blocks of this workload
find on this host with a probability of 80 % (analysis/verdict.py): 1.4 times the half-width of the paired effect's 95 %
interval at ten blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.compare import compare
from perfrunner.analysis.model import Cell, Effect, EffectKind
from perfrunner.analysis.verdict import deviation, smallest_visible

if TYPE_CHECKING:
    from perfrunner.results import ExperimentData


@dataclass(frozen=True)
class NoiseFloor:
    """`floor`: a share for a ratio, the metric's unit for a difference. `source`: the A/A experiment's id."""

    workload: str
    bucket: str
    metric: str
    kind: EffectKind
    floor: float
    blocks: int
    source: str
    measured_at: str  # ISO 8601, UTC

    @property
    def cell(self) -> Cell:
        return Cell(self.workload, self.bucket)

    def record(self) -> dict[str, Any]:
        """As plain values, for the facts of the experiments that it is valid for."""
        return asdict(self)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> NoiseFloor:
        return cls(**record)


def half_width(effect: Effect) -> float | None:
    """Half of the effect's 95 % interval: a share for a ratio, the metric's unit for a difference."""
    if effect.ci95 is None:
        return None
    low, high = deviation(effect, effect.ci95)
    half = (high - low) / 2
    return math.expm1(half) if effect.kind == "ratio" else half


def is_aa(spec_json: Mapping[str, Any]) -> bool:
    """Whether a recorded spec compares a variant with itself: two arms that differ in nothing but their names."""
    variants = spec_json.get("variants")
    if not isinstance(variants, Mapping) or len(variants) != 2:
        return False
    first, second = ({**arm, "name": ""} for arm in variants.values())
    return bool(first == second)


def noise_floors(data: ExperimentData) -> list[NoiseFloor]:
    """Of every cell and metric of an A/A experiment that has two blocks or more."""
    found = []
    for row in compare(data).rows:
        floor = None if row.effect is None else smallest_visible(row.effect)
        if row.effect is None or floor is None:
            continue
        found.append(
            NoiseFloor(
                workload=row.cell.workload,
                bucket=row.cell.bucket,
                metric=row.metric.id,
                kind=row.effect.kind,
                floor=floor,
                blocks=row.effect.n,
                source=data.experiment.id,
                measured_at=data.experiment.created_at.isoformat(timespec="seconds"),
            )
        )
    return found

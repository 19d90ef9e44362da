"""What a report says about the noise floor, and about an A/A experiment that found a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.analysis.noise import NoiseFloor, is_aa, noise_floors
from perfrunner.report.numbers import scale_of, significant
from perfrunner.spec.metrics import metric_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.analysis import Comparison
    from perfrunner.results import ExperimentData

NOISE_FLOOR = "noise floor"  # the label of its line


def known_floors(data: ExperimentData, comparison: Comparison) -> list[NoiseFloor]:
    """An A/A experiment's own; otherwise what was known when the experiment began."""
    if is_aa(data.experiment.spec_json):
        floors = noise_floors(data)
    else:
        records = data.experiment.facts.get("noise_floor") or []
        floors = [NoiseFloor.of_record(record) for record in records]
    return [floor for floor in floors if floor.cell in comparison.cells]


def noise_text(floors: Iterable[NoiseFloor], comparison: Comparison) -> str:
    """The floors of the primary metrics, by metric; the source in the end."""
    primary = dict.fromkeys(row.metric.id for row in comparison.rows if row.primary)
    shown = [floor for floor in floors if floor.metric in primary]
    if not shown:
        return "not known for these workloads on this host: perfrunner aa SPEC measures it"
    parts = [
        f"{metric} " + ", ".join(f"±{_size(f)} {f.cell}" for f in shown if f.metric == metric)
        for metric in primary
        if any(f.metric == metric for f in shown)
    ]
    newest = max(shown, key=lambda floor: floor.measured_at)
    return f"{'; '.join(parts)} ({newest.blocks} A/A blocks, {newest.source})"


def aa_alarms(data: ExperimentData, comparison: Comparison) -> Iterable[str]:
    """One sentence for each primary metric in which one build differs from itself."""
    if not is_aa(data.experiment.spec_json):
        return
    for row in comparison.rows:
        if row.primary and row.verdict in ("better", "worse"):
            yield (
                f"{row.cell}: {row.metric.id} is {row.verdict} although nothing differs. Chance does that once in 20"
                " times; measure again, and if it stays, something on this host favours one arm: trust no verdict of it"
            )


def _size(floor: NoiseFloor) -> str:
    if floor.kind == "ratio":
        return f"{significant(100 * floor.floor, 2)} %"
    metric = metric_type(floor.metric)
    if metric.unit == "%":
        return f"{significant(floor.floor, 2)} pt"
    scale = scale_of(metric, floor.floor)
    return f"{scale.number(floor.floor, 2)}{scale.joint}{scale.unit}"

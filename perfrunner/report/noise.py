"""Describe the noise floor of a report, and warn about an A/A experiment that found a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfrunner.analysis.noise import FLOORS_FACT, NoiseFloor, is_aa, noise_floors
from perfrunner.report.numbers import scale_of, significant
from perfrunner.spec.metrics import metric_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.analysis import Comparison
    from perfrunner.results import ExperimentData

NOISE_FLOOR = "noise floor"  # the label of its line


def known_floors(data: ExperimentData, comparison: Comparison) -> list[NoiseFloor]:
    """Return the floors of an A/A experiment, otherwise those known when the experiment started."""
    if is_aa(data.experiment.spec_json):
        floors = noise_floors(data)
    else:
        records = data.experiment.facts.get(FLOORS_FACT) or []
        floors = [NoiseFloor.of_record(record) for record in records]
    return [floor for floor in floors if floor.case in comparison.cases]


def noise_text(floors: Iterable[NoiseFloor], comparison: Comparison) -> str:
    """Return the floors of the primary metrics by metric, followed by their source."""
    primary = dict.fromkeys(row.metric.id for row in comparison.rows if row.primary)
    shown = [floor for floor in floors if floor.metric in primary]
    if not shown:
        return "unknown for these workloads on this host: measure it with perfrunner aa SPEC"
    parts = [
        f"{metric} " + ", ".join(f"±{_size(f)} {f.case}" for f in shown if f.metric == metric)
        for metric in primary
        if any(f.metric == metric for f in shown)
    ]
    newest = max(shown, key=lambda floor: floor.measured_at)
    return f"{'; '.join(parts)} ({newest.blocks} A/A blocks, {newest.source})"


def aa_alarms(data: ExperimentData, comparison: Comparison) -> Iterable[str]:
    """Yield a warning for each primary metric in which a build differs from itself."""
    if not is_aa(data.experiment.spec_json):
        return
    for row in comparison.rows:
        if row.primary and row.verdict in ("better", "worse"):
            yield (
                f"{row.case}: {row.metric.id} is {row.verdict} although the builds are identical. This happens"
                " by chance in 1 of 20 runs. Repeat the run: if it happens again, this host favours one variant"
                " and its verdicts are wrong"
            )


def _size(floor: NoiseFloor) -> str:
    if floor.kind == "ratio":
        return f"{significant(100 * floor.floor, 2)} %"
    metric = metric_type(floor.metric)
    if metric.unit == "%":
        return f"{significant(floor.floor, 2)} pt"
    scale = scale_of(metric, floor.floor)
    return f"{scale.number(floor.floor, 2)}{scale.joint}{scale.unit}"

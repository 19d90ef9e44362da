"""Write runs as time series in the OpenMetrics text format, for Prometheus and Grafana (docs/how-to/export.md).

Nothing about a single run is a label, so that the runs of a spec are one series: each trial that counts
is a point at its end, and each change of a variant against the baseline is a point at the end of the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfrunner.analysis.cases import clean_blocks
from perfrunner.spec.metrics import is_metric, metric_type

if TYPE_CHECKING:
    from datetime import datetime

    from perfrunner.results import ExperimentData

FAMILIES = {
    "perfrunner_trial": "Value of a metric in one trial, in its unit.",
    "perfrunner_change": "Change of a metric against the baseline in one run: a share (0.02 is +2 %), or a"
    " difference in the unit.",
    "perfrunner_change_low": "Lower end of the 95 % interval of perfrunner_change.",
    "perfrunner_change_high": "Upper end of the 95 % interval of perfrunner_change.",
}
Labels = tuple[tuple[str, str], ...]


@dataclass
class _Series:
    """The points of each family, by labels and time in ms. Points of one series never share a time."""

    points: dict[str, dict[Labels, dict[int, float]]] = field(
        default_factory=lambda: {name: defaultdict(dict) for name in FAMILIES}
    )

    def add(self, family: str, labels: Mapping[str, str], at: datetime, value: float) -> None:
        points = self.points[family][tuple(labels.items())]
        ms = round(at.timestamp() * 1000)
        while ms in points:
            ms += 1
        points[ms] = value

    def lines(self) -> Iterator[str]:
        for family, by_labels in self.points.items():
            yield f"# TYPE {family} gauge"
            yield f"# HELP {family} {FAMILIES[family]}"
            for labels, points in sorted(by_labels.items()):
                text = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
                for ms, value in sorted(points.items()):
                    yield f"{family}{{{text}}} {value!r} {ms // 1000}.{ms % 1000:03}"
        yield "# EOF"


def openmetrics_text(runs: Iterable[ExperimentData]) -> str:
    """Return the runs as one OpenMetrics document."""
    series = _Series()
    for data in runs:
        _add_trials(series, data)
        _add_changes(series, data)
    return "\n".join([*series.lines(), ""])


def _add_trials(series: _Series, data: ExperimentData) -> None:
    for blocks in clean_blocks(data.trials).values():
        for trials in blocks.blocks.values():
            for trial in trials:
                place = {
                    "spec": data.experiment.name,
                    "workload": trial.workload,
                    "bucket": trial.bucket,
                    "variant": trial.variant,
                    "group": str(trial.group),
                }
                for metric, value in trial.metrics.items():
                    unit = metric_type(metric).unit if is_metric(metric) else ""
                    labels = {**place, "metric": metric, "unit": unit}
                    series.add("perfrunner_trial", labels, trial.finished_at, float(value))


def _add_changes(series: _Series, data: ExperimentData) -> None:
    from perfrunner.report import build_report

    if not data.trials:
        return
    comparison = build_report(data).comparison
    end = max(trial.finished_at for trial in data.trials)
    for row in comparison.rows:
        if row.effect is None:
            continue
        ratio = row.effect.kind == "ratio"
        labels = {
            "spec": data.experiment.name,
            "workload": row.case.workload,
            "bucket": row.case.bucket,
            "variant": row.variant,
            "baseline": comparison.baseline,
            "metric": row.metric.id,
            "unit": "ratio" if ratio else row.metric.unit,
        }
        values: Sequence[float] = (row.effect.estimate, *(row.effect.ci95 or ()))
        for family, value in zip(list(FAMILIES)[1:], values, strict=False):
            series.add(family, labels, end, value - 1.0 if ratio else value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

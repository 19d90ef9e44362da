"""Read the analysis settings of a recorded spec: baseline, primary metrics, margins and order.

The spec as it was recorded counts, not today's file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perfrunner.analysis.account import TOTAL_CPU
from perfrunner.errors import UsageError
from perfrunner.spec.metrics import METRICS, MetricType, is_metric, metric_type
from perfrunner.spec.suggest import did_you_mean
from perfrunner.spec.units import parse_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfrunner.results import ExperimentData


@dataclass(frozen=True)
class AnalysisPlan:
    """The analysis settings of a spec. `variants` starts with the baseline."""

    baseline: str
    variants: tuple[str, ...]
    primary: tuple[str, ...]
    workloads: tuple[str, ...]
    buckets: tuple[str, ...]
    margins: Mapping[str, float] = field(default_factory=dict)
    short: frozenset[str] = (
        frozenset()
    )  # workloads whose trials may be short because the spec says so
    client_busy: float = (
        1.0  # share of the busiest load thread, above which the client is saturated
    )
    allocators: Mapping[str, str] = field(default_factory=dict)  # by variant, if the spec says

    @classmethod
    def of(cls, data: ExperimentData, baseline: str | None = None) -> AnalysisPlan:
        """Return the plan of an experiment. `baseline` replaces the spec's. Raises UsageError if it is unknown."""
        spec = data.experiment.spec_json
        measured = dict.fromkeys(t.variant for t in data.trials)
        variants = tuple(dict.fromkeys([*_names(spec.get("variants")), *measured]))
        chosen = baseline if baseline is not None else str(spec.get("baseline", ""))
        if not chosen and variants:
            chosen = variants[0]
        if chosen not in variants:
            raise UsageError(
                f"experiment {data.experiment.id} has no variant {chosen!r}"
                f"{did_you_mean(chosen, variants)}"
            )
        return cls(
            baseline=chosen,
            variants=(chosen, *(v for v in variants if v != chosen)),
            primary=tuple(spec.get("primary") or ("ops_per_s",)),
            workloads=tuple(_names(spec.get("workloads"))),
            buckets=tuple(spec.get("buckets") or ()),
            margins={name: _margin(name, v) for name, v in (spec.get("margins") or {}).items()},
            short=frozenset(_short(spec.get("workloads"))),
            client_busy=float((spec.get("limits") or {}).get("client_busy", 1.0)),
            allocators=dict(_allocators(spec.get("variants"))),
        )

    @property
    def primary_cpu(self) -> bool:
        """Return whether the spec itself names a total CPU as a primary metric."""
        return any(name in self.primary for name in TOTAL_CPU)

    def margin(self, metric: MetricType) -> float:
        """Return the margin of a metric: the spec's, or the metric's default."""
        return self.margins.get(metric.id, metric.default_margin)

    def order(self, metrics: Iterable[str]) -> list[str]:
        """Sort metrics: primary metrics in the spec's order, then the registry's order, then the rest."""
        known = [*self.primary, *METRICS]
        place = {name: i for i, name in reversed(list(enumerate(known)))}
        return sorted(set(metrics), key=lambda m: (place.get(m, len(known)), m))


def type_of(metric_id: str) -> MetricType:
    """Return the registry's type of a metric. An unknown metric has no direction, so it gets no verdict."""
    if is_metric(metric_id):
        return metric_type(metric_id)
    return MetricType(metric_id, "", "none", "difference", 0.0, metric_id)


def _names(value: Any) -> list[str]:
    return [str(name) for name in value] if value else []


def _short(workloads: Any) -> Iterable[str]:
    for name, workload in workloads.items() if isinstance(workloads, dict) else ():
        if isinstance(workload, dict) and workload.get("schedule") == "interleaved":
            yield str(name)


def _allocators(variants: Any) -> Iterable[tuple[str, str]]:
    for name, variant in variants.items() if isinstance(variants, dict) else ():
        allocator = variant.get("allocator") if isinstance(variant, dict) else None
        if isinstance(allocator, dict) and allocator.get("name"):
            yield str(name), str(allocator.get("preload") or allocator["name"])


def _margin(metric_id: str, value: Any) -> float:
    return parse_share(value) if type_of(metric_id).effect == "ratio" else float(value)

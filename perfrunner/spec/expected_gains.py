"""Define `expected_gains:` of a spec: known effects of variants, which `--fail-on lost` checks.

They do not influence a run. An expected gain was measured with this engine; published values come from
others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from perfrunner.spec.base import BucketType, MetricId, Piece, PlainName, VariantName
from perfrunner.spec.metrics import metric_type
from perfrunner.spec.suggest import expected_name
from perfrunner.spec.units import number_of, share_of


class ExpectedGain(Piece):
    """A known effect: `variant` is better than `against` by at least `at_least`."""

    variant: VariantName
    against: VariantName | None = Field(
        default=None, description="the other variant; none: the baseline"
    )
    workload: PlainName
    bucket: Literal[BucketType, ""] = Field(
        default="", description="persistent, ephemeral, or empty if the workload has no bucket"
    )
    metric: MetricId
    at_least: Annotated[
        float,
        Field(
            description="a percentage; for a metric compared by difference, a number in its unit"
        ),
    ]

    @field_validator("at_least", mode="before")
    @classmethod
    def _reachable(cls, value: Any, info: ValidationInfo) -> float:
        if "metric" not in info.data:  # the metric has an error already
            return 0.0
        metric = metric_type(info.data["metric"])
        if metric.direction == "none":
            raise ValueError(f"expected a metric with a direction; {metric.id} has none")
        if metric.effect == "difference":
            if number_of(value) is None or value <= 0:
                raise ValueError(f"expected a positive number ({metric.margin_unit}), such as 1.0")
            return float(value)
        share = share_of(value)
        if share is None or not 0 < share < (1 if metric.direction == "lower" else math.inf):
            most = ", below 100% where lower is better" if metric.direction == "lower" else ""
            raise ValueError(f"expected a percentage such as 10%{most}")
        return share

    def problems(
        self, variants: Collection[str], workloads: Collection[str], bucketless: Collection[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield key and error of each name that the spec does not define."""
        for key in ("variant", "against"):
            name = getattr(self, key)
            if name is not None and name not in variants:
                yield key, expected_name("a variant", name, variants)
        if self.workload not in workloads:
            yield "workload", expected_name("a workload", self.workload, workloads)
        elif bool(self.bucket) == (self.workload in bucketless):
            wanted = "no bucket" if self.bucket else "persistent or ephemeral"
            yield "bucket", f"expected {wanted} of {self.workload}; got {self.bucket or 'nothing'}"

"""Define what a spec knows before its run: `published:` values and `expected_gains:`.

Neither influences a run. Published values come from others, in the unit of their metric; the report's *Published
values* compares the results with them. An expected gain is a known effect of a variant that was measured with this
engine; `--fail-on lost` checks it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from perfrunner.spec.base import (
    BucketType,
    ListAsTuple,
    MetricId,
    Piece,
    PlainName,
    PositiveCount,
    VariantName,
)
from perfrunner.spec.metrics import metric_type
from perfrunner.spec.suggest import expected_name
from perfrunner.spec.units import number_of, share_of


def _number_alone(value: Any) -> Any:
    """Accept `12714` as a short form of `{value: 12714}`."""
    return value if isinstance(value, Mapping | Piece) else {"value": value}


def _name_alone(value: Any) -> Any:
    """Accept a single metric name as a list of one."""
    return (value,) if isinstance(value, str) else value


class PublishedValue(Piece):
    """One published value. `n` and `spread` override those of the table."""

    value: Annotated[float, Field(allow_inf_nan=False)]
    n: PositiveCount | None = None
    spread: str = ""


class PublishedRow(Piece):
    """A metric and its value for each variant.

    If several metrics are named, the first one that was measured is compared.
    """

    metric: Annotated[
        tuple[MetricId, ...], ListAsTuple, BeforeValidator(_name_alone), Field(min_length=1)
    ]
    label: str = Field(default="", description="original name of the row; default: the metric")
    workload: str = Field(default="", description="default: the table's")
    bucket: Literal[BucketType, ""] = Field(default="", description="default: the table's")
    values: Annotated[
        dict[VariantName, Annotated[PublishedValue, BeforeValidator(_number_alone)]],
        Field(min_length=1),
    ]


class PublishedTable(Piece):
    """Rows that were published together, and the workload that measures the same here."""

    title: str
    workload: str
    bucket: Literal[BucketType, ""] = Field(
        default="", description="persistent, ephemeral, or empty if the workload has no bucket"
    )
    n: PositiveCount | None = Field(default=None, description="runs per value, if stated")
    spread: str = Field(default="", description="spread as stated by the source")
    note: str = ""
    rows: Annotated[tuple[PublishedRow, ...], ListAsTuple, Field(min_length=1)]

    def place(self, row: PublishedRow) -> tuple[str, str]:
        """Return the workload and the bucket (empty: none) of a row."""
        return row.workload or self.workload, row.bucket or self.bucket


class PublishedValues(Piece):
    """Values that others published for the same comparison."""

    claim: str = Field(default="", description="what the source concludes, in a sentence")
    source: str = Field(description="where they were published")
    machine: str = Field(default="", description="the machine they were measured on")
    why: str = Field(default="", description="known reasons why our values differ")
    notes: Annotated[tuple[str, ...], ListAsTuple] = Field(
        default=(), description="other published results that are not values of a variant"
    )
    not_here: Annotated[tuple[VariantName, ...], ListAsTuple] = Field(
        default=(), description="variants with values that this spec does not run"
    )
    tables: Annotated[tuple[PublishedTable, ...], ListAsTuple, Field(min_length=1)]

    def problems(
        self, variants: Collection[str], workloads: Collection[str], bucketless: Collection[str]
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield path and error of each name that the spec does not define.

        `bucketless` are the workloads without a bucket. A bucket type that the spec does not run is valid.
        """
        known = [*variants, *self.not_here]
        for name in self.not_here:
            if name in variants:
                yield ("not_here",), f"expected variants that the spec does not have; got {name}"
        for t, table in enumerate(self.tables):
            for r, row in enumerate(table.rows):
                path = ("tables", t, "rows", r)
                for name in row.values:
                    if name not in known:
                        yield (*path, "values", name), expected_name("a variant", name, known)
                workload, bucket = table.place(row)
                at = path if row.workload else path[:2]
                if workload not in workloads:
                    yield (*at, "workload"), expected_name("a workload", workload, workloads)
                elif bool(bucket) == (workload in bucketless):
                    at = path if row.bucket else path[:2]
                    got = (
                        f"no bucket ({workload} has none); got {bucket}"
                        if bucket
                        else f"a bucket type of {workload}: persistent or ephemeral; got nothing"
                    )
                    yield (*at, "bucket"), f"expected {got}"

    def restricted(
        self, variants: Collection[str], workloads: Collection[str]
    ) -> PublishedValues | None:
        """Return the values that concern these variants and workloads; None if no row remains."""
        tables = []
        for table in self.tables:
            rows = tuple(row for row in table.rows if table.place(row)[0] in workloads)
            if rows:
                tables.append(table.model_copy(update={"rows": rows}))
        named = dict.fromkeys(n for table in self.tables for row in table.rows for n in row.values)
        absent = tuple(name for name in named if name not in variants)
        update = {"tables": tuple(tables), "not_here": absent}
        return self.model_copy(update=update) if tables else None


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

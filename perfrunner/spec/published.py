"""Define `published:` of a spec: values that others published, for the report's *Published values*.

Values are in the unit of their metric. They do not influence a run; its results are compared with them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from perfrunner.spec.base import (
    BucketType,
    ListAsTuple,
    MetricId,
    Piece,
    PositiveCount,
    VariantName,
)
from perfrunner.spec.suggest import expected_name


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

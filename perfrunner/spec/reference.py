"""`reference:` of a spec: what was measured before, elsewhere, by others. Data for the report's *beside the reference*.

Values are in the unit of their metric. They change nothing of a run: a run is compared with them afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from perfrunner.spec.base import BucketType, ListAsTuple, MetricId, Piece, VariantName
from perfrunner.spec.quantities import PositiveCount
from perfrunner.spec.suggest import expected_name


def _number_alone(value: Any) -> Any:
    """`12714` for `{value: 12714}`."""
    return value if isinstance(value, Mapping | Piece) else {"value": value}


def _one_alone(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class ReferenceValue(Piece):
    """One cell of a reference table. `n` and `spread` where they were stated, and are not the row's."""

    value: Annotated[float, Field(allow_inf_nan=False)]
    n: PositiveCount | None = None
    spread: str = ""


class ReferenceRow(Piece):
    """A metric, and its value for each variant. Of several metrics the first that was measured is ours."""

    metric: Annotated[
        tuple[MetricId, ...], ListAsTuple, BeforeValidator(_one_alone), Field(min_length=1)
    ]
    label: str = Field(default="", description="as the row was called; default: the metric")
    workload: str = Field(default="", description="default: the table's")
    bucket: Literal[BucketType, ""] = Field(default="", description="default: the table's")
    values: Annotated[
        dict[VariantName, Annotated[ReferenceValue, BeforeValidator(_number_alone)]],
        Field(min_length=1),
    ]


class ReferenceTable(Piece):
    """Rows that were published together, and the workload of ours that measures the same."""

    title: str
    workload: str
    bucket: Literal[BucketType, ""] = Field(
        default="", description="persistent, ephemeral, or nothing: has none"
    )
    n: PositiveCount | None = Field(default=None, description="runs behind each value, if stated")
    spread: str = Field(default="", description="as it was stated")
    note: str = ""
    rows: Annotated[tuple[ReferenceRow, ...], ListAsTuple, Field(min_length=1)]

    def place(self, row: ReferenceRow) -> tuple[str, str]:
        """The workload and the bucket (empty: none) of a row."""
        return row.workload or self.workload, row.bucket or self.bucket


class Reference(Piece):
    """Published values of the same comparison."""

    claim: str = Field(default="", description="what was said of them, in a sentence")
    source: str = Field(description="where they stand")
    machine: str = Field(default="", description="what they were measured on")
    why: str = Field(default="", description="what is known of why ours differ")
    notes: Annotated[tuple[str, ...], ListAsTuple] = Field(
        default=(), description="what else was published and is no value of a variant"
    )
    not_here: Annotated[tuple[VariantName, ...], ListAsTuple] = Field(
        default=(), description="variants with values that this spec does not run"
    )
    tables: Annotated[tuple[ReferenceTable, ...], ListAsTuple, Field(min_length=1)]

    def problems(
        self, variants: Collection[str], workloads: Collection[str], bucketless: Collection[str]
    ) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """What names nothing of the spec: its path inside the block, and the text of the error.

        `bucketless`: the workloads that have no bucket. A bucket type that the spec does not run is no problem.
        """
        known = [*variants, *self.not_here]
        for name in self.not_here:
            if name in variants:
                yield ("not_here",), f"expected variants that the spec lacks; got {name}"
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
                        f"nothing ({workload} has no bucket); got {bucket}"
                        if bucket
                        else f"a bucket type of {workload}: persistent or ephemeral; got nothing"
                    )
                    yield (*at, "bucket"), f"expected {got}"

    def restricted(self, variants: Collection[str], workloads: Collection[str]) -> Reference | None:
        """For a run of some variants and workloads; None where no row is left."""
        tables = []
        for table in self.tables:
            rows = tuple(row for row in table.rows if table.place(row)[0] in workloads)
            if rows:
                tables.append(table.model_copy(update={"rows": rows}))
        named = dict.fromkeys(n for table in self.tables for row in table.rows for n in row.values)
        gone = tuple(name for name in named if name not in variants)
        update = {"tables": tuple(tables), "not_here": gone}
        return self.model_copy(update=update) if tables else None

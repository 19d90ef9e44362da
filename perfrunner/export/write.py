"""Write tables as CSV, or as Parquet if pyarrow is installed."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from perfrunner.errors import UsageError
from perfrunner.export.tables import SCHEMA, TABLES, Table, raw_of, rows
from perfrunner.report.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from perfrunner.results import ExperimentData

FORMATS = ("csv", "parquet")


def csv_text(table: Table, values: Iterable[tuple[Any, ...]]) -> str:
    """Return a table as CSV with a heading. Unknown values are empty, times are ISO 8601."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    times = [i for i, column in enumerate(table.columns) if column.kind == "time"]
    for row in values:
        cases = list(row)
        for i in times:
            cases[i] = cases[i].isoformat()
        writer.writerow(cases)
    return out.getvalue()


def write_tables(
    data: ExperimentData, names: Sequence[str], fmt: str, directory: Path
) -> tuple[list[Path], list[str]]:
    """Write `DIR/trials.csv` and so on; return the paths and notes about unreadable files.

    An empty table consists of its heading.
    """
    raw = raw_of(data) if set(names) - {"trials"} else None
    written = []
    for name in names:
        table = TABLES[name]
        records = list(rows(data, name, raw))
        content = csv_text(table, records).encode() if fmt == "csv" else _parquet(table, records)
        written.append(write_whole(directory / f"{name}.{fmt}", content))
    return written, list(raw.notes) if raw is not None else []


def _parquet(table: Table, values: Sequence[tuple[Any, ...]]) -> bytes:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow, which is not installed", "pip install 'perfrunner[export]'"
        ) from None
    kinds = {
        "text": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "time": pa.timestamp("us", tz="UTC"),
    }
    fields = [
        pa.field(c.name, kinds[c.kind], metadata={"meaning": c.meaning}) for c in table.columns
    ]
    schema = pa.schema(
        fields, metadata={"perfrunner.table": table.name, "perfrunner.schema": str(SCHEMA)}
    )
    columns = list(zip(*values, strict=True)) or [()] * len(fields)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, fields, strict=True)]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), sink)
    return sink.getvalue()

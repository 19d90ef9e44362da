"""Export measured values as flat tables, or as time series for Prometheus (docs/how-to/export.md).

The tables are for spreadsheets, notebooks and databases: CSV, or Parquet if pyarrow is installed. Unknown values are
None. The OpenMetrics text has nothing about a single run as a label, so that the runs of a spec are one series: each
trial that counts is a point at its end, and each change of a variant against the baseline is a point at the end of the
run.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from perfrunner.analysis.cases import clean_blocks
from perfrunner.errors import UsageError
from perfrunner.results.files import write_whole
from perfrunner.results.records import TRIAL_COLUMNS, trial_rows
from perfrunner.spec.metrics import is_metric, metric_type

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from perfrunner.measure.slices import Slices
    from perfrunner.results import ExperimentData
    from perfrunner.results.raw import Inside, RawSeries


SCHEMA = 1  # version of all tables; raised when a column is removed or changes its meaning
Kind = Literal["text", "integer", "number", "time"]


@dataclass(frozen=True)
class Column:
    """A column of a table. `meaning` includes the unit, if there is one."""

    name: str
    kind: Kind
    meaning: str


@dataclass(frozen=True)
class Table:
    """A table, by the name of its file."""

    name: str
    columns: tuple[Column, ...]


PLACE = (
    Column("experiment", "text", "id of the experiment"),
    Column("block", "integer", "counts from 1"),
    Column("attempt", "integer", "of the block; a discarded block is repeated under the next one"),
    Column("group", "integer", "group of variants that ran interleaved, from 1; 0 ran alone"),
    Column("workload", "text", "name in the spec"),
    Column("bucket", "text", "persistent, ephemeral, or - if the workload has no bucket"),
    Column("variant", "text", "name in the spec"),
)
TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "trials",  # a row is one metric of one trial
            tuple(Column(name, kind, meaning) for name, kind, meaning in TRIAL_COLUMNS),
        ),
        Table(
            "rounds",  # a row is one slice of load on one variant, of interleaved trials
            (
                *PLACE,
                Column("round", "integer", "counts from 1 in the trial"),
                Column("position", "integer", "place of the slice in its round, from 0"),
                Column("start_ns", "integer", "ns since the first measured round"),
                Column("wall_ns", "integer", "ns that the slice took"),
                Column("ops", "integer", "operations answered"),
                Column("cpu_ns", "integer", "CPU ns of the engine; empty if unknown"),
                Column("client_cpu_ns", "integer", "CPU ns of the load client"),
            ),
        ),
        Table(
            "series",  # a row is one point of one series inside a trial
            (
                *PLACE,
                Column("series", "text", "ops_per_s, or of memory RSS, mapped, resident, allocated, mem_used, payload"),
                Column("node", "integer", "engine node, from 1; 0 for a rate"),
                Column("t_s", "number", "s since the load began (rates) or since the first sample (memory)"),
                Column("value", "number", "in the unit"),
                Column("unit", "text", "ops/s or B"),
            ),
        ),
    )
}  # fmt: skip


def rows(
    data: ExperimentData, table: str, raw: RawSeries | None = None
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table, with its columns in order. `rounds` and `series` need the raw files (`raw_of`)."""
    if table == "trials":
        yield from trial_rows(data)
        return
    raw = raw if raw is not None else raw_of(data)
    slices = {(t.case, t.block, t.group, t.variant): t.slices for t in raw.trial_slices}
    for inside in raw.inside:
        trial = inside.trial
        if table == "series":
            yield from _series(data, inside)
        elif own := slices.get((inside.case, trial.block, trial.group, trial.variant)):
            yield from _rounds(_place(data, inside), own)


def raw_of(data: ExperimentData) -> RawSeries:
    """Read the raw files of all trials that count; `problems` lists files that cannot be read."""
    from perfrunner.analysis.cases import counted_trials
    from perfrunner.results.raw import read_series

    return read_series(data, counted_trials(data.trials))


def _place(data: ExperimentData, inside: Inside) -> tuple[Any, ...]:
    t = inside.trial
    return data.experiment.id, t.block, t.attempt, t.group, t.workload, t.bucket, t.variant


def _rounds(place: tuple[Any, ...], slices: Slices) -> Iterator[tuple[Any, ...]]:
    arrays = (slices.position, slices.start_ns, slices.wall_ns, slices.ops)
    columns = [array.tolist() for array in arrays]
    columns.append([None] * len(slices.ops) if slices.cpu_ns is None else slices.cpu_ns.tolist())
    columns.append(slices.client_cpu_ns.tolist())
    for number, values in enumerate(zip(*columns, strict=True), 1):
        yield (*place, number, *values)


def _series(data: ExperimentData, inside: Inside) -> Iterator[tuple[Any, ...]]:
    place = _place(data, inside)
    for t, value in inside.rates:
        yield (*place, "ops_per_s", 0, t, value, "ops/s")
    for node, kinds in enumerate(inside.memory, 1):
        for kind, points in kinds.items():
            for t, value in points:
                yield (*place, kind, node, t, value, "B")


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
        if row.effect is None or row.verdict == "not comparable":
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

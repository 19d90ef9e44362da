"""Define the exported tables and produce their rows from a stored experiment. Unknown values are None."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from perfrunner.results.flat import TRIAL_COLUMNS, trial_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfrunner.measure.turns import Slices
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
    """A table. `grain` says what one row represents."""

    name: str
    grain: str
    columns: tuple[Column, ...]


PLACE = (
    Column("experiment", "text", "id of the experiment"),
    Column("block", "integer", "counts from 1"),
    Column("attempt", "integer", "of the block; a discarded block is repeated under the next one"),
    Column("workload", "text", "name in the spec"),
    Column("bucket", "text", "persistent, ephemeral, or - if the workload has no bucket"),
    Column("variant", "text", "name in the spec"),
)
TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "trials",
            "one metric of one trial",
            tuple(Column(name, kind, meaning) for name, kind, meaning in TRIAL_COLUMNS),
        ),
        Table(
            "rounds",
            "one slice of load on one variant, of interleaved trials",
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
            "series",
            "one point of one series inside a trial",
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
    turns = {(turn.case, turn.block, turn.group, turn.variant): turn for turn in raw.turns}
    for inside in raw.inside:
        trial = inside.trial
        if table == "series":
            yield from _series(data, inside)
        elif turn := turns.get((inside.case, trial.block, trial.group, trial.variant)):
            yield from _rounds(_place(data, inside), turn.slices)


def raw_of(data: ExperimentData) -> RawSeries:
    """Read the raw files of all trials that count; `problems` lists files that cannot be read."""
    from perfrunner.analysis.cases import counted_trials
    from perfrunner.results.raw import read_series

    return read_series(data, counted_trials(data.trials))


def _place(data: ExperimentData, inside: Inside) -> tuple[Any, ...]:
    t = inside.trial
    return data.experiment.id, t.block, t.attempt, t.workload, t.bucket, t.variant


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

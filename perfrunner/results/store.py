"""The store: experiments, their builds and their trials in SQLite (a file) or PostgreSQL (a URL).

Threads: a store may be used from several threads; each operation is its own transaction on its own
connection. Processes: one writer and any number of readers may have the file open.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

from sqlalchemy import Connection, Engine, Row, Table, case, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from typing_extensions import Self

from perfrunner.errors import StoreError, UsageError
from perfrunner.results.database import STORE_FILE, connect, prepare, transaction
from perfrunner.results.flat import frame
from perfrunner.results.records import (
    BuildRecord,
    ExperimentData,
    ExperimentRecord,
    ExperimentState,
    ExperimentSummary,
    TrialRecord,
    TrialStatus,
)
from perfrunner.results.schema import builds, experiments, trials

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

__all__ = ["STORE_FILE", "ResultStore"]

BUILD_COLUMNS = [builds.c[f.name] for f in dataclasses.fields(BuildRecord)]
TRIAL_COLUMNS = [trials.c[f.name] for f in dataclasses.fields(TrialRecord)]
EXPERIMENT_COLUMNS = [experiments.c[f.name] for f in dataclasses.fields(ExperimentRecord)]
SHORTEST_BUILD_ID = 6  # characters of one that a person must give


class ResultStore:
    """Every error is a StoreError with a sentence for a person; an unknown experiment is a
    UsageError.
    """

    def __init__(self, engine: Engine, place: str, directory: Path | None) -> None:
        self._engine = engine
        self._place = place
        self.directory = directory

    @classmethod
    def open(cls, path_or_url: str | Path, *, create: bool = True) -> ResultStore:
        """Open a file, a directory (its results.sqlite) or a database URL.

        With `create` off, a place that holds no results yet is an error instead of a new, empty
        store.
        """
        engine, place, directory = connect(path_or_url, create=create)
        store = cls(engine, place, directory)
        try:
            prepare(engine, place, create=create)
        except BaseException:
            engine.dispose()
            raise
        return store

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Writing ------------------------------------------------------------------------------------

    def create_experiment(self, record: ExperimentRecord) -> None:
        _check(record.state, ExperimentState, "state")
        with self._transaction() as connection:
            _insert(connection, experiments, _row(record), f"experiment {record.id}")

    def set_state(self, experiment_id: str, state: ExperimentState) -> None:
        _check(state, ExperimentState, "state")
        self._update_experiment(experiment_id, {"state": state})

    def set_facts(self, experiment_id: str, facts: Mapping[str, Any]) -> None:
        """Replace the facts of an experiment (host facts, preconditions, known only after the
        preflight).
        """
        self._update_experiment(experiment_id, {"facts": dict(facts)})

    def add_build(self, experiment_id: str, record: BuildRecord) -> None:
        """Store the build of a variant; a resumed run that builds again replaces what it stored
        before.
        """
        with self._transaction() as connection:
            self._require(connection, experiment_id)
            connection.execute(
                delete(builds).where(
                    builds.c.experiment_id == experiment_id, builds.c.variant == record.variant
                )
            )
            row = {**_row(record), "experiment_id": experiment_id}
            _insert(connection, builds, row, f"the build of {record.variant}")

    def add_trial(self, experiment_id: str, record: TrialRecord) -> None:
        """Store one finished trial in one transaction; afterwards it survives a power cut."""
        self.add_trials(experiment_id, (record,))

    def add_trials(self, experiment_id: str, records: Sequence[TrialRecord]) -> None:
        """Store the trials of an ensemble: all of them or, if anything goes wrong, none."""
        for record in records:
            _check(record.status, TrialStatus, "status")
            for metric, value in record.metrics.items():
                if not math.isfinite(value):
                    raise StoreError(
                        f"metric {metric} of {record.variant} in block {record.block} is {value}",
                        "a metric that cannot be measured is left out, never stored as NaN or infinity",
                    )
        with self._transaction() as connection:
            self._require(connection, experiment_id)
            for record in records:
                what = (
                    f"trial block {record.block} attempt {record.attempt} {record.workload} "
                    f"{record.bucket} {record.variant}"
                )
                _insert(connection, trials, {**_row(record), "experiment_id": experiment_id}, what)

    def delete(self, experiment_id: str) -> None:
        """Forget an experiment, its builds and its trials. Its raw files are the caller's to
        remove.
        """
        with self._transaction() as connection:
            self._require(connection, experiment_id)
            for table in (trials, builds):
                connection.execute(delete(table).where(table.c.experiment_id == experiment_id))
            connection.execute(delete(experiments).where(experiments.c.id == experiment_id))

    # Reading ------------------------------------------------------------------------------------

    def load(self, experiment_id: str) -> ExperimentData:
        """Everything of one experiment, by its exact id."""
        with self._transaction() as connection:
            record = self._require(connection, experiment_id)
            build_rows = connection.execute(
                select(*BUILD_COLUMNS)
                .where(builds.c.experiment_id == experiment_id)
                .order_by(builds.c.row)
            )
            trial_rows = connection.execute(
                select(*TRIAL_COLUMNS)
                .where(trials.c.experiment_id == experiment_id)
                .order_by(trials.c.row)
            )
            return ExperimentData(
                experiment=record,
                builds=tuple(BuildRecord(*row) for row in build_rows),
                trials=tuple(TrialRecord(*row) for row in trial_rows),
                directory=None if self.directory is None else str(self.directory),
            )

    def frame(self, experiment: str | None = None) -> pd.DataFrame:
        """A row a trial and metric, of the experiment that `resolve` finds; needs pandas."""
        return frame(self.load(self.resolve(experiment).id))

    def list(self) -> list[ExperimentSummary]:
        """Every experiment with its counts, oldest first."""
        counts = [
            func.coalesce(func.sum(case((trials.c.status == status, 1), else_=0)), 0)
            for status in get_args(TrialStatus)
        ]
        with self._transaction() as connection:
            records = [
                _experiment(row)
                for row in connection.execute(
                    select(*EXPERIMENT_COLUMNS).order_by(experiments.c.created_at, experiments.c.id)
                )
            ]
            ended = {
                row[0]: (int(row[1]), int(row[2]), int(row[3]))
                for row in connection.execute(
                    select(trials.c.experiment_id, *counts).group_by(trials.c.experiment_id)
                )
            }
        return [ExperimentSummary(record, *ended.get(record.id, (0, 0, 0))) for record in records]

    def latest(self, spec_name: str | None = None) -> ExperimentRecord | None:
        """The experiment created last (of a spec name, where one is given)."""
        query = select(*EXPERIMENT_COLUMNS)
        if spec_name is not None:
            query = query.where(experiments.c.name == spec_name)
        query = query.order_by(experiments.c.created_at.desc(), experiments.c.id.desc()).limit(1)
        with self._transaction() as connection:
            row = connection.execute(query).first()
        return None if row is None else _experiment(row)

    def resolve(self, reference: str | None) -> ExperimentRecord:
        """The experiment a person means.

        An id, a spec name (its latest run), a day (its latest run; 20261120 or 2026-11-20, UTC), the start of exactly
        one id, or None: the latest.
        """
        known = [summary.experiment for summary in self.list()]
        if not known:
            raise UsageError(
                f"no experiment is stored in {self._place}", "start one: perfrunner run SPEC"
            )
        if reference is None:
            return known[-1]
        for record in known:
            if record.id == reference:
                return record
        named = [record for record in known if record.name == reference]
        if named:
            return named[-1]
        if (day := _day(reference)) and (then := [r for r in known if _day_of(r) == day]):
            names = sorted({record.name for record in then})
            if len(names) == 1:
                return then[-1]
            raise UsageError(
                f"on {reference} there were runs of several specs: {', '.join(names)}",
                f"name one as {names[0]}-{day}",
            )
        starting = [r for r in known if reference and r.id.startswith(reference)]
        if len(starting) == 1:
            return starting[0]
        if starting:
            ids = ", ".join(record.id for record in starting)
            raise UsageError(f"{reference!r} is the start of several experiments: {ids}")
        names = [record.id for record in known] + sorted({record.name for record in known})
        near = difflib.get_close_matches(reference, names, n=1)
        raise UsageError(
            f"no experiment {reference!r} in {self._place}",
            f"did you mean {near[0]}?" if near else "perfrunner list shows what is stored",
        )

    def with_build(self, start: str) -> Sequence[tuple[str, str]]:
        """(experiment id, variant) measured on the one build whose id begins so, oldest first; empty where none is."""
        if len(start) < SHORTEST_BUILD_ID:
            return ()
        query = (
            select(builds.c.experiment_id, builds.c.variant, builds.c.build_id)
            .join(experiments, experiments.c.id == builds.c.experiment_id)
            .where(builds.c.build_id.startswith(start, autoescape=True))
            .order_by(experiments.c.created_at, experiments.c.id, builds.c.row)
        )
        with self._transaction() as connection:
            found = list(connection.execute(query))
        ids = sorted({row[2] for row in found})
        if len(ids) > 1:
            raise UsageError(f"{start!r} is the start of several build ids: {', '.join(ids)}")
        return [(row[0], row[1]) for row in found]

    # Inside -------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with transaction(self._engine, self._place) as connection:
            yield connection

    def _update_experiment(self, experiment_id: str, values: dict[str, Any]) -> None:
        with self._transaction() as connection:
            self._require(connection, experiment_id)
            connection.execute(
                update(experiments).where(experiments.c.id == experiment_id).values(**values)
            )

    def _require(self, connection: Connection, experiment_id: str) -> ExperimentRecord:
        row = connection.execute(
            select(*EXPERIMENT_COLUMNS).where(experiments.c.id == experiment_id)
        ).first()
        if row is None:
            raise UsageError(f"no experiment {experiment_id!r} in {self._place}")
        return _experiment(row)


def _day(reference: str) -> str | None:
    """20261120, from either way of writing a day."""
    match = re.fullmatch(r"(\d{4})(-?)(\d{2})\2(\d{2})", reference)
    return None if match is None else match[1] + match[3] + match[4]


def _day_of(record: ExperimentRecord) -> str:
    return f"{record.created_at:%Y%m%d}"


def _experiment(row: Row[Any]) -> ExperimentRecord:
    return ExperimentRecord(**row._asdict())


def _row(record: ExperimentRecord | BuildRecord | TrialRecord) -> dict[str, Any]:
    """The record's fields, shallowly; mappings become plain dicts, which JSON can write."""
    values = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    return {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}


def _insert(connection: Connection, table: Table, row: dict[str, Any], what: str) -> None:
    try:
        connection.execute(insert(table).values(**row))
    except IntegrityError as error:
        raise StoreError(f"{what} is stored already") from error
    except SQLAlchemyError as error:
        cause = error.__cause__
        if isinstance(cause, (TypeError, ValueError)):  # JSON or a time that cannot be written
            raise StoreError(f"{what} cannot be stored: {cause}") from error
        raise


def _check(value: str, choices: Any, what: str) -> None:
    if value not in get_args(choices):
        raise StoreError(f"{what} {value!r} is none of {', '.join(get_args(choices))}")

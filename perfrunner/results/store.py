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

from sqlalchemy import Connection, Row, Table, case, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from typing_extensions import Self

from perfrunner.errors import StoreError, UsageError
from perfrunner.results.contents import Contents
from perfrunner.results.database import (
    STORE_FILE,
    Opened,
    connect,
    one_at_a_time,
    prepare,
    transaction,
)
from perfrunner.results.flat import frame
from perfrunner.results.patience import AlreadyStoredError, outlasting
from perfrunner.results.records import (
    BuildRecord,
    ExperimentData,
    ExperimentRecord,
    ExperimentState,
    ExperimentSummary,
    TrialRecord,
    TrialStatus,
)
from perfrunner.results.schema import builds, experiments, raw_files, trials

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

__all__ = ["STORE_FILE", "AlreadyStoredError", "ResultStore", "open_store"]

BUILD_COLUMNS = [builds.c[f.name] for f in dataclasses.fields(BuildRecord)]
TRIAL_COLUMNS = [trials.c[f.name] for f in dataclasses.fields(TrialRecord)]
EXPERIMENT_COLUMNS = [experiments.c[f.name] for f in dataclasses.fields(ExperimentRecord)]
SHORTEST_BUILD_ID = 6  # characters of one that a person must give


class ResultStore:
    """Every error is a StoreError with a sentence for a person; an unknown experiment is a
    UsageError.
    """

    def __init__(self, opened: Opened, out: Path | None = None) -> None:
        self._engine = opened.engine
        self._place = opened.place
        self._contents = None if opened.contents is None else Contents(opened.contents)
        self.shared = out is not None  # by the results directories of several groups
        self.directory = opened.directory if out is None else out.absolute()

    @classmethod
    def open(
        cls, path_or_url: str | Path, *, create: bool = True, out: Path | None = None
    ) -> ResultStore:
        """Open a file, a directory (its results.sqlite) or a database URL.

        With `create` off, a place that holds no results yet is an error instead of a new, empty
        store. `out` is the results directory of this group, where the store is that of several.
        """
        opened = connect(path_or_url, create=create)
        try:
            prepare(opened.engine, opened.place, create=create)
        except BaseException:
            opened.engine.dispose()
            raise
        return cls(opened, out)

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def beside(self) -> Path | None:
        """A directory for what is worked out from the store and may be lost."""
        if self.directory is not None and self.directory.is_dir():
            return self.directory
        return None if self._contents is None else self._contents.directory

    # Writing ------------------------------------------------------------------------------------

    def create_experiment(self, record: ExperimentRecord) -> None:
        _check(record.state, ExperimentState, "state")
        with self._transaction() as connection:
            _insert(connection, experiments, _row(record), f"experiment {record.id}")

    @outlasting
    def set_state(self, experiment_id: str, state: ExperimentState) -> None:
        _check(state, ExperimentState, "state")
        self._update_experiment(experiment_id, {"state": state})

    @outlasting
    def set_facts(self, experiment_id: str, facts: Mapping[str, Any]) -> None:
        """Replace the facts of an experiment (host facts, preconditions, known only after the
        preflight).
        """
        self._update_experiment(experiment_id, {"facts": dict(facts)})

    @outlasting
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

    @outlasting
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

    @outlasting
    def keep_raw(self, experiment_id: str, raw_dir: str, directory: Path) -> None:
        """Keep the files of a trial, or of a profile, by content; nothing where the store keeps none."""
        if self._contents is None:
            return
        # Before the lock: a network file system may be slow, or hang, and that is no other group's.
        contents = list(self._contents.keep(directory))
        with self._transaction() as connection:
            one_at_a_time(connection)  # nobody removes a content that this refers to
            self._require(connection, experiment_id)
            if not all(map(self._contents.has, contents)):  # the last that had it went meanwhile
                contents = list(self._contents.keep(directory))
            mine = (raw_files.c.experiment_id == experiment_id, raw_files.c.raw_dir == raw_dir)
            connection.execute(delete(raw_files).where(*mine))
            rows = [
                {"experiment_id": experiment_id, "raw_dir": raw_dir, **dataclasses.asdict(kept)}
                for kept in contents
            ]
            if rows:
                connection.execute(insert(raw_files), rows)

    def delete(self, experiment_id: str) -> None:
        """Forget an experiment, its builds and its trials. The files in its directory are the caller's to
        remove; contents that no other experiment has go, too.
        """
        with self._transaction() as connection:
            one_at_a_time(connection)
            self._require(connection, experiment_id)
            mine = raw_files.c.experiment_id == experiment_id
            others = select(raw_files.c.sha256).where(~mine)
            orphans = connection.scalars(
                select(raw_files.c.sha256).distinct().where(mine, raw_files.c.sha256.not_in(others))
            ).all()
            for table in (raw_files, trials, builds):
                connection.execute(delete(table).where(table.c.experiment_id == experiment_id))
            connection.execute(delete(experiments).where(experiments.c.id == experiment_id))
            if self._contents is not None:
                self._contents.remove(orphans)

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
                directory=self._directory_of(experiment_id),
                contents=self._contents_of(connection, experiment_id),
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

    def own(self) -> Sequence[ExperimentRecord]:
        """Those of this results directory, oldest first: a run of another group is not gone on with here."""
        query = select(*EXPERIMENT_COLUMNS)
        with self._transaction() as connection:
            rows = connection.execute(query.order_by(experiments.c.created_at, experiments.c.id))
            records = [_experiment(row) for row in rows]
        return [r for r in records if self.is_own(r.id)]

    def is_own(self, experiment_id: str) -> bool:
        """Whether it was begun in this results directory; where that is the store's only one, everything was."""
        return not self.shared or self.has_here(experiment_id)

    def has_here(self, experiment_id: str) -> bool:
        """Whether its files are in this results directory."""
        return self.directory is not None and (self.directory / experiment_id).is_dir()

    def latest(self, spec_name: str | None = None) -> ExperimentRecord | None:
        """Of this results directory, the experiment created last (of a spec name, where one is given)."""
        named = [r for r in self.own() if spec_name in (None, r.name)]
        return named[-1] if named else None

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

    def _directory_of(self, experiment_id: str) -> str | None:
        """None where another group's directory has it, on this machine or another."""
        return str(self.directory) if self.directory and self.is_own(experiment_id) else None

    def _contents_of(self, connection: Connection, experiment_id: str) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        if self._contents is None:
            return found
        columns = (raw_files.c.raw_dir, raw_files.c.name, raw_files.c.sha256)
        for raw_dir, name, sha256 in connection.execute(
            select(*columns).where(raw_files.c.experiment_id == experiment_id)
        ):
            found.setdefault(raw_dir, {})[name] = str(self._contents.path(sha256))
        return found

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


def open_store(out: Path, url: str | None, *, create: bool = True) -> ResultStore:
    """Of a results directory: at `url`, which several of them may share, or its own file."""
    if url is None:
        return ResultStore.open(out, create=create)
    return ResultStore.open(url, create=create, out=out)


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
        raise AlreadyStoredError(f"{what} is stored already") from error
    except SQLAlchemyError as error:
        cause = error.__cause__
        if isinstance(cause, (TypeError, ValueError)):  # JSON or a time that cannot be written
            raise StoreError(f"{what} cannot be stored: {cause}") from error
        raise


def _check(value: str, choices: Any, what: str) -> None:
    if value not in get_args(choices):
        raise StoreError(f"{what} {value!r} is none of {', '.join(get_args(choices))}")

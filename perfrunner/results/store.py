"""Store experiments, their builds and their trials in SQLite (a file) or PostgreSQL (a URL).

Threads: a store may be used from several threads; each operation is a separate transaction on a separate
connection. Processes: one writer and any number of readers may have the file open.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

from sqlalchemy import Connection, Row, Table, case, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from typing_extensions import Self

from perfrunner.domain import TrialStatus
from perfrunner.errors import StoreError, UsageError
from perfrunner.results.database import (
    AlreadyStoredError,
    Opened,
    connect,
    one_at_a_time,
    outlasting,
    prepare,
    transaction,
)
from perfrunner.results.files import (
    Content,
    Contents,
    Verified,
    describe,
    in_use,
    is_inside,
    verify_files,
)
from perfrunner.results.records import (
    BuildRecord,
    ExperimentData,
    ExperimentRecord,
    ExperimentState,
    ExperimentSummary,
    TrialRecord,
    find_experiment,
    frame,
)
from perfrunner.results.schema import builds, experiments, raw_files, trials
from perfrunner.text import all_readable

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

__all__ = ["AlreadyStoredError", "ResultStore", "open_store"]

BUILD_COLUMNS = [builds.c[f.name] for f in dataclasses.fields(BuildRecord)]
TRIAL_COLUMNS = [
    *(trials.c[f.name] for f in dataclasses.fields(TrialRecord) if not f.kw_only),
    trials.c.group,
]
EXPERIMENT_COLUMNS = [experiments.c[f.name] for f in dataclasses.fields(ExperimentRecord)]
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
SHORTEST_BUILD_ID = 6  # least number of characters that identify a build


class ResultStore:
    """A store of results.

    Every error is a StoreError with a readable sentence; an unknown experiment is a UsageError.
    """

    def __init__(self, opened: Opened, out: Path | None = None) -> None:
        self._engine = opened.engine
        self._place = opened.place
        self._contents = None if opened.contents is None else Contents(opened.contents)
        # Whether several groups with their own results directories use it.
        self.shared = out is not None
        self.directory = opened.directory if out is None else out.absolute()

    @classmethod
    def open(
        cls, path_or_url: str | Path, *, create: bool = True, out: Path | None = None
    ) -> ResultStore:
        """Open a file, a directory (its results.sqlite) or a database URL.

        If `create` is off, a place without results is an error; otherwise an empty store is created. `out` is
        the results directory of this group, if several groups share the store.
        """
        opened = connect(path_or_url, create=create)
        try:
            prepare(opened.engine, opened.place, create=create)
        except BaseException:
            opened.engine.dispose()
            raise
        return cls(opened, out)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def derived_directory(self) -> Path | None:
        """A directory for files that are derived from the store and may be lost."""
        if self.directory is not None and self.directory.is_dir():
            return self.directory
        return None if self._contents is None else self._contents.directory

    # Writing ------------------------------------------------------------------------------------

    def create_experiment(self, record: ExperimentRecord) -> None:
        """Store a new experiment. Raises AlreadyStoredError if its id is taken."""
        _check_id(record.id)
        _check(record.state, ExperimentState, "state")
        with self._transaction() as connection:
            _insert(connection, experiments, _row(record), f"experiment {record.id}")

    @outlasting
    def add(self, data: ExperimentData) -> None:
        """Store a whole experiment in one transaction. Raises AlreadyStoredError if its id is taken.

        The raw files must be in the results directory; call `keep_raw` for each of their directories.
        """
        record = data.experiment
        _check_id(record.id)
        _check(record.state, ExperimentState, "state")
        for trial in data.trials:
            _check_trial(trial)
        with self._transaction() as connection:
            _insert(connection, experiments, _row(record), f"experiment {record.id}")
            for table, rows in ((builds, data.builds), (trials, data.trials)):
                for row in rows:
                    what = f"{row.variant} of {record.id}"
                    _insert(connection, table, {**_row(row), "experiment_id": record.id}, what)

    @outlasting
    def set_state(self, experiment_id: str, state: ExperimentState) -> None:
        """Change the state of an experiment."""
        _check(state, ExperimentState, "state")
        self._update_experiment(experiment_id, {"state": state})

    @outlasting
    def set_facts(self, experiment_id: str, facts: Mapping[str, Any]) -> None:
        """Replace the facts of an experiment; host facts and preconditions are known only after the preflight."""
        self._update_experiment(experiment_id, {"facts": all_readable(facts)})

    @outlasting
    def add_build(self, experiment_id: str, record: BuildRecord) -> None:
        """Store the build of a variant, replacing an earlier one of the same variant (a resumed run builds again)."""
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
        """Store a finished trial in one transaction; it survives a power cut from then on."""
        self.add_trials(experiment_id, (record,))

    @outlasting
    def add_trials(self, experiment_id: str, records: Sequence[TrialRecord]) -> None:
        """Store the trials of a group: all of them or, on any error, none."""
        for record in records:
            _check_trial(record)
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
        """Record the digests of the files of a trial, and store the files if the store has contents."""
        # Before the lock: a network file system may be slow or hang, which must not block other groups.
        contents = self._kept(directory)
        with self._transaction() as connection:
            one_at_a_time(connection)  # nobody removes a content to which these rows refer
            self._require(connection, experiment_id)
            if self._contents is not None and not all(map(self._contents.has, contents)):
                # The last other experiment with the same content was removed in the meantime.
                contents = self._kept(directory)
            mine = (raw_files.c.experiment_id == experiment_id, raw_files.c.raw_dir == raw_dir)
            connection.execute(delete(raw_files).where(*mine))
            rows = [
                {"experiment_id": experiment_id, "raw_dir": raw_dir, **dataclasses.asdict(kept)}
                for kept in contents
            ]
            if rows:
                connection.execute(insert(raw_files), rows)

    def delete(self, experiment_id: str) -> None:
        """Delete an experiment, its builds, its trials and the contents that no other experiment has.

        The caller removes the files in its directory.
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
        """Return everything stored of an experiment, by its exact id."""
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
                experiment=dataclasses.replace(
                    self._as_it_is(record), facts=all_readable(record.facts)
                ),
                builds=tuple(BuildRecord(*row) for row in build_rows),
                trials=tuple(TrialRecord(*row[:-1], group=row[-1]) for row in trial_rows),
                directory=self._directory_of(experiment_id),
                contents=self._contents_of(connection, experiment_id),
            )

    def verify_raw(self, experiment_id: str) -> Verified:
        """Compare the raw files of an experiment with the digests recorded when they were stored."""
        return verify_files(self.load(experiment_id), self.raw_digests(experiment_id))

    def raw_digests(self, experiment_id: str) -> Mapping[str, Mapping[str, str]]:
        """Return the recorded SHA-256 of raw files, by directory and name."""
        columns = (raw_files.c.raw_dir, raw_files.c.name, raw_files.c.sha256)
        recorded: dict[str, dict[str, str]] = {}
        with self._transaction() as connection:
            for raw_dir, name, sha256 in connection.execute(
                select(*columns).where(raw_files.c.experiment_id == experiment_id)
            ):
                recorded.setdefault(raw_dir, {})[name] = sha256
        return recorded

    def frame(self, experiment: str | None = None) -> pd.DataFrame:
        """Return a pandas DataFrame with a row per trial and metric of the experiment that `resolve` finds."""
        return frame(self.load(self.resolve(experiment).id))

    def list(self) -> list[ExperimentSummary]:
        """Return every experiment with its counts, oldest first."""
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
        return [
            ExperimentSummary(self._as_it_is(record), *ended.get(record.id, (0, 0, 0)))
            for record in records
        ]

    def own(self) -> Sequence[ExperimentRecord]:
        """Return the experiments that were measured in this results directory, oldest first.

        Those of other groups and imported ones cannot be resumed here.
        """
        query = select(*EXPERIMENT_COLUMNS)
        with self._transaction() as connection:
            rows = connection.execute(query.order_by(experiments.c.created_at, experiments.c.id))
            records = [_experiment(row) for row in rows]
        return [self._as_it_is(r) for r in records if self.is_own(r.id) and not r.imported]

    def is_own(self, experiment_id: str) -> bool:
        """Tell whether a run began in this results directory. A store with one directory owns all its runs."""
        return not self.shared or self.has_here(experiment_id)

    def has_here(self, experiment_id: str) -> bool:
        """Tell whether the files of an experiment are in this results directory."""
        return self.directory is not None and (self.directory / experiment_id).is_dir()

    def latest(self, spec_name: str | None = None) -> ExperimentRecord | None:
        """Return the experiment of this results directory created last, of the given spec name if any."""
        named = [r for r in self.own() if spec_name in (None, r.name)]
        return named[-1] if named else None

    def resolve(self, reference: str | None) -> ExperimentRecord:
        """Return the experiment that a user's reference names (results/records.py).

        Raises UsageError if none or several match.
        """
        return find_experiment(
            [summary.experiment for summary in self.list()], reference, self._place
        )

    def with_build(self, start: str) -> Sequence[tuple[str, str]]:
        """Return (experiment id, variant) pairs measured on the build whose id begins with `start`, oldest first."""
        if len(start) < SHORTEST_BUILD_ID:
            return ()
        query = (
            select(builds.c.experiment_id, builds.c.variant, builds.c.build_id)
            .join(experiments, experiments.c.id == builds.c.experiment_id)
            .where(builds.c.build_id.startswith(start, autoescape=True))
            .order_by(experiments.c.created_at, experiments.c.id, builds.c.row)
        )
        with self._transaction() as connection:
            measured = list(connection.execute(query))
        ids = sorted({row[2] for row in measured})
        if len(ids) > 1:
            raise UsageError(f"{start!r} matches several build ids: {', '.join(ids)}")
        return [(row[0], row[1]) for row in measured]

    # Inside -------------------------------------------------------------------------------------

    def _as_it_is(self, record: ExperimentRecord) -> ExperimentRecord:
        """Return a record; a run that is stored as running but whose process is gone is interrupted."""
        if record.state != "running" or self.directory is None or not self.is_own(record.id):
            return record
        return (
            record if in_use(self.directory) else dataclasses.replace(record, state="interrupted")
        )

    def _kept(self, directory: Path) -> Sequence[Content]:
        return describe(directory) if self._contents is None else self._contents.keep(directory)

    def _directory_of(self, experiment_id: str) -> str | None:
        """Return the results directory; None if the experiment belongs to another group's directory."""
        return str(self.directory) if self.directory and self.is_own(experiment_id) else None

    def _contents_of(self, connection: Connection, experiment_id: str) -> dict[str, dict[str, str]]:
        paths: dict[str, dict[str, str]] = {}
        if self._contents is None:
            return paths
        columns = (raw_files.c.raw_dir, raw_files.c.name, raw_files.c.sha256)
        for raw_dir, name, sha256 in connection.execute(
            select(*columns).where(raw_files.c.experiment_id == experiment_id)
        ):
            paths.setdefault(raw_dir, {})[name] = str(self._contents.path(sha256))
        return paths

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
    """Open the store of a results directory: at `url`, which several directories may share, or its own file."""
    if url is None:
        return ResultStore.open(out, create=create)
    return ResultStore.open(url, create=create, out=out)


def _experiment(row: Row[Any]) -> ExperimentRecord:
    record = ExperimentRecord(**row._asdict())
    _check_id(record.id)
    return record


def _check_id(experiment_id: str) -> None:
    """Raise StoreError unless the id can be a directory name; others may write to a shared store."""
    if not _ID.fullmatch(experiment_id):
        raise StoreError(
            f"{experiment_id!r} is not an experiment id",
            "ids consist of letters, digits, '.', '_' and '-'; if a shared store has others, find out who writes to it",
        )


def _row(record: ExperimentRecord | BuildRecord | TrialRecord) -> dict[str, Any]:
    """Return the fields of a record in a form that JSON and every database accept."""
    return {f.name: all_readable(getattr(record, f.name)) for f in dataclasses.fields(record)}


def _insert(connection: Connection, table: Table, row: dict[str, Any], what: str) -> None:
    try:
        connection.execute(insert(table).values(**row))
    except IntegrityError as error:
        raise AlreadyStoredError(f"{what} is stored already") from error
    except SQLAlchemyError as error:
        cause = error.__cause__
        if isinstance(cause, (TypeError, ValueError)):  # JSON or a time that cannot be written
            raise StoreError(f"cannot store {what}: {cause}") from error
        raise


def _check(value: str, choices: Any, what: str) -> None:
    if value not in get_args(choices):
        raise StoreError(f"{what}: expected one of {', '.join(get_args(choices))}, got {value!r}")


def _check_trial(record: TrialRecord) -> None:
    _check(record.status, TrialStatus, "status")
    if not is_inside(record.raw_dir):
        raise StoreError(
            f"raw files of {record.variant} outside the results directory: {record.raw_dir!r}"
        )
    for metric, value in record.metrics.items():
        if not math.isfinite(value):
            raise StoreError(
                f"metric {metric} of {record.variant} in block {record.block} is {value}",
                "leave out a metric that cannot be measured; NaN and infinity are not stored",
            )

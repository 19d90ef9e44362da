"""Open the database of a results store: connect, create or upgrade its tables, and retry while it is unavailable."""

from __future__ import annotations

import functools
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    MetaData,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import (
    ArgumentError,
    NoSuchModuleError,
    SQLAlchemyError,
)
from sqlalchemy.pool import NullPool
from typing_extensions import ParamSpec

from perfrunner.errors import StoreError
from perfrunner.paths import STORE_FILE, with_home
from perfrunner.results.database_errors import ServerAwayError, StoreURLError, explain
from perfrunner.results.schema import SCHEMA_VERSION, metadata, schema_table

if TYPE_CHECKING:
    from collections.abc import Iterator


SCRIPTS = Path(__file__).with_name("migrations")


def upgrade(connection: Connection, version: int) -> None:
    """Upgrade the tables from `version` to the newest, step by step; do nothing for an unknown version."""
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    revisions = ScriptDirectory(str(SCRIPTS), version_locations=[str(SCRIPTS)])
    steps = {int(step.revision): step for step in revisions.walk_revisions()}
    if version not in steps:
        return
    with Operations.context(MigrationContext.configure(connection)):
        for number in range(version + 1, max(steps) + 1):
            steps[number].module.upgrade()
            connection.execute(update(schema_table).values(version=number))


BUSY_SECONDS = 30.0
# A process that was stopped, or that a hung disk blocks, keeps others waiting this long; then its session is ended.
STUCK_S = 60
_LOCKS = {  # held until the transaction ends; the number is derived from the tool's name
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": "SET LOCAL idle_in_transaction_session_timeout = '{stuck}s';"
    f"SELECT pg_advisory_xact_lock({int.from_bytes(b'perfrunr', 'big') % 2**63})",
}
# Notices within half a minute, instead of hours, that the server's machine has disappeared. $PGCLIENTENCODING has no
# effect.
PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "client_encoding": "utf8",
}
FILE_SUFFIXES = (".sqlite", ".sqlite3", ".db")  # any other new path is a directory


@dataclass(frozen=True)
class Opened:
    """An open database.

    `place` names it in messages. `directory` is the directory of the file (None for a server). `contents` is
    the directory in which raw files are stored by content (None: they are not).
    """

    engine: Engine
    place: str
    directory: Path | None
    contents: Path | None


def connect(path_or_url: str | Path, *, create: bool) -> Opened:
    """Open a path or URL. `raw` in the query of a URL is the directory of contents."""
    text, contents = str(path_or_url), None
    if "://" in text:
        url = _parse(text)
        contents = _contents(url)
        url = url.difference_update_query(["raw"])
        if not url.drivername.startswith("sqlite"):
            return Opened(_server(url), _public(url).render_as_string(), None, contents)
        if not url.database or url.database == ":memory:":
            raise StoreURLError("a store in memory would lose its results: name a file")
        _, mark, query = text.partition("?")
        # An option without a value is in no URL.
        if url.query or (mark and contents is None):
            raise StoreURLError(
                f"{query}: expected raw=DIR, the only option of sqlite:///FILE",
                "write a question mark in a file name as %3F",
            )
        text = url.database
    path = Path(text)
    if not path.is_file() and path.suffix not in FILE_SUFFIXES:
        path = path / STORE_FILE
    if not create and not path.exists():
        raise StoreError(
            f"no results in {path.parent}: {path} does not exist",
            "start a run with perfrunner run SPEC, or name the directory with --out",
        )
    if create:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError as error:
            raise StoreError(f"cannot create {path}: {error.strerror}") from error
    # A file that is removed, or whose disk is unmounted, must not come back as an empty one.
    name = f"file:{quote(os.fsencode(path.absolute()))}"
    engine = create_engine(
        URL.create("sqlite", database=name, query={"mode": "rw", "uri": "true"}),
        poolclass=NullPool,
        connect_args={"timeout": BUSY_SECONDS},
    )
    event.listen(engine, "connect", _set_pragmas)
    return Opened(engine, str(path), path.parent.absolute(), contents)


def without_password(url: str) -> str:
    """Return the URL of a store in a form that may be shown to others."""
    return _public(_parse(url)).render_as_string()


def _public(url: URL) -> URL:
    return URL.create(
        url.drivername,
        url.username,
        host=url.host,
        port=url.port,
        database=url.database,
        query=url.difference_update_query(["password", "sslpassword"]).query,
    )


def prepare(engine: Engine, place: str, *, create: bool) -> None:
    """Create the tables in an empty database, or check that the existing ones are ours and upgrade them."""
    with transaction(engine, place) as connection:
        if create and schema_table.name not in inspect(connection).get_table_names():
            # Taken only to create: two runs that start at once must not both create the tables.
            one_at_a_time(connection)
        tables = set(inspect(connection).get_table_names())
        if schema_table.name not in tables:
            ours = tables & set(metadata.tables)
            if tables and (ours or engine.dialect.name == "sqlite"):
                raise StoreError(
                    f"{place} is a database, but not a perfrunner store",
                    "name another results directory with --out, or another database with --store",
                )
            if not create:
                raise StoreError(f"{place} is empty: no results are stored in it")
            metadata.create_all(connection)
            connection.execute(insert(schema_table).values(version=SCHEMA_VERSION))
            return
        versions = _versions(connection)
        if len(versions) == 1 and 0 < versions[0] < SCHEMA_VERSION:
            one_at_a_time(connection)
            versions = _versions(connection)  # another run may have upgraded in the meantime
            upgrade(connection, versions[0])
            versions = _versions(connection)
            tables = set(inspect(connection).get_table_names())
        if versions != [SCHEMA_VERSION]:
            version = versions[0] if len(versions) == 1 else versions
            newer = len(versions) == 1 and versions[0] > SCHEMA_VERSION
            raise StoreError(
                f"{place} has schema version {version}; this perfrunner knows {SCHEMA_VERSION}",
                "it was written by a newer perfrunner: upgrade this one" if newer else None,
            )
        missing = set(metadata.tables) - tables
        if missing:
            raise StoreError(f"{place} is damaged: table {', '.join(sorted(missing))} is missing")


def create_tables(connection: Connection, tables: MetaData) -> None:
    """Create the missing tables. Two processes that start at once do not both create them."""
    if not set(tables.tables) <= set(inspect(connection).get_table_names()):
        one_at_a_time(connection)
        tables.create_all(connection)


def one_at_a_time(connection: Connection) -> None:
    """Make other callers wait until the transaction ends."""
    connection.exec_driver_sql(_LOCKS[connection.dialect.name].format(stuck=STUCK_S))


def _versions(connection: Connection) -> list[int]:
    return [row[0] for row in connection.execute(select(schema_table.c.version))]


@contextmanager
def errors_as_ours(place: str) -> Iterator[None]:
    """Convert errors of the database to StoreError."""
    try:
        yield
    except SQLAlchemyError as error:
        raise explain(error, place, BUSY_SECONDS) from error


@contextmanager
def transaction(engine: Engine, place: str) -> Iterator[Connection]:
    """Open a transaction; convert errors of the database or its contents to StoreError."""
    try:
        with errors_as_ours(place), engine.begin() as connection:
            yield connection
    except (ValueError, TypeError, KeyError) as error:  # JSON or a time that does not parse back
        raise StoreError(f"{place} is damaged: {error}") from error


def _parse(text: str) -> URL:
    try:
        url = make_url(text)
        if url.port is not None and not 0 < url.port < 1 << 16:
            raise ValueError(f"port {url.port}")
    except (ArgumentError, ValueError) as error:  # a port that is no number
        raise _no_url(text) from error
    if url.drivername in ("postgres", "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    return url


def _no_url(text: str) -> StoreURLError:
    return StoreURLError(
        f"{text.rsplit('@', maxsplit=1)[-1]!r} is not a database URL",
        "give --store postgresql://USER@HOST/DATABASE or sqlite:///FILE",
    )


def _contents(url: URL) -> Path | None:
    raw = url.query.get("raw")
    if raw is None:
        return None
    path = with_home(str(raw))
    if not path.is_absolute():
        raise StoreURLError(
            f"raw={raw}: expected the absolute path of a directory that all groups share"
        )
    return path


def patient(url: URL) -> URL:
    """Add PATIENCE to the URL, except for options that the URL sets."""
    return url.set(query={**PATIENCE, **url.query})


def _server(url: URL) -> Engine:
    if url.get_backend_name() not in _LOCKS:
        raise StoreURLError(
            f"cannot store results in {url.get_backend_name()}",
            "give --store postgresql://USER@HOST/DATABASE or sqlite:///FILE, or leave it out",
        )
    try:
        engine = create_engine(patient(url), pool_pre_ping=True)
    except NoSuchModuleError as error:
        raise StoreURLError(f"no database driver for {url.drivername}") from error
    except ArgumentError as error:  # in the query
        raise _no_url(_public(url).render_as_string()) from error
    except ModuleNotFoundError as error:
        raise StoreError(
            f"the driver of {url.drivername} is not installed: {error.name}",
            "pip install 'perfrunner[postgres]'",
        ) from error
    # Before SQLAlchemy asks the server for its version, which fails in SQL_ASCII.
    event.listen(engine, "connect", _begin_session, insert=True)
    event.listen(engine, "begin", _lift_time_limits)
    return engine


def _begin_session(connection: Any, _record: object) -> None:
    """Refuse a database that cannot store every text, before a run meets the first such text."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(
            f"the database {connection.info.dbname} stores text as {encoding}; perfrunner needs UTF8",
            "create another one: createdb --template template0 --encoding UTF8 NAME",
        )
    # A pooler such as PgBouncer gives each transaction another session, which does not know prepared statements.
    connection.prepare_threshold = None


def _lift_time_limits(connection: Connection) -> None:
    """Lift the limits of a role, which would end a transaction that waits for that of another group."""
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")


def _set_pragmas(connection: Any, _record: object) -> None:
    if not isinstance(connection, sqlite3.Connection):
        return
    cursor = connection.cursor()
    try:
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA journal_mode = DELETE")
        cursor.execute("PRAGMA synchronous = EXTRA")
    finally:
        cursor.close()


AWAY_S, AGAIN_S = 300.0, 1.0  # how long a server may be away, and the interval of attempts


class AlreadyStoredError(StoreError):
    """An error: a record with the same key is already stored."""


Args = ParamSpec("Args")
Answer = TypeVar("Answer")


def waiting(ask: Callable[[], Answer]) -> Answer:
    """Call `ask` until the server answers. Each attempt is a separate transaction."""
    until = time.monotonic() + AWAY_S
    while True:
        try:
            return ask()
        except ServerAwayError:
            if time.monotonic() > until:
                raise
        time.sleep(AGAIN_S)


def outlasting(write: Callable[Args, None]) -> Callable[Args, None]:
    """Decorate a method of the store so that it waits for a server that is away."""

    @functools.wraps(write)
    def patient(*args: Args.args, **kwargs: Args.kwargs) -> None:
        tries = 0

        def once() -> None:
            nonlocal tries
            tries += 1
            try:
                write(*args, **kwargs)
            except AlreadyStoredError:
                if tries == 1:  # otherwise it was stored, and the server's answer was lost
                    raise
            except StoreURLError as error:
                # The server has begun to refuse us during the run, so it is no error of usage.
                raise StoreError(error.message, error.hint) from error

        waiting(once)

    return patient

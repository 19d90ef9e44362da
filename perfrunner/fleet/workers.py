"""The table of workers in the queue's database, with a row per worker that its heartbeat updates.

A silent worker keeps its jobs, because a machine that was frozen or cut off from the database
continues its runs. Only `perfrunner fleet recover` declares a worker dead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    delete,
    func,
    insert,
    select,
    update,
)

from perfrunner.errors import StoreError, UsageError
from perfrunner.hosts.process import ProcessId
from perfrunner.results.database import create_tables, one_at_a_time, transaction

BEAT_S = 10.0
SILENT_S = 60.0

metadata = MetaData()
table = Table(
    "perfrunner_workers",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("host", String(200), nullable=False),
    Column("groups", JSON, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("start_time", BigInteger, nullable=False),
    Column("boot_id", String(100), nullable=False),
    Column("began_at", Float, nullable=False),  # seconds since the epoch
    Column("seen_at", Float, nullable=False),
    Column("ended_at", Float),
)


@dataclass(frozen=True)
class Worker:
    """The last known state of a worker; times are seconds since the epoch, by the clock of Workers.now."""

    name: str
    host: str
    groups: tuple[str, ...]
    process: ProcessId
    began_at: float
    seen_at: float
    ended_at: float | None

    def may_live(self, now: float) -> bool:
        """Return whether the worker may be running; on another machine, only silence tells."""
        if self.ended_at is not None:
            return False
        # Two containers of one machine share its boot id, but not the numbers of their processes.
        if (self.process.boot_id, self.host) == (_boot_id(), socket.gethostname()):
            return _start_time(self.process.pid) == self.process.start_time
        return not self.is_silent(now)

    def is_silent(self, now: float) -> bool:
        """Return whether the last heartbeat is too old."""
        return now - self.seen_at > SILENT_S


class Workers:
    """The table of workers in the queue's database."""

    def __init__(self, engine: Engine, place: str) -> None:
        self._engine = engine
        self._place = place
        with self._transaction() as connection:
            create_tables(connection, metadata)

    def all(self) -> Sequence[Worker]:
        """Return all workers, sorted by name."""
        with self._transaction() as connection:
            return _workers(connection)

    def now(self) -> float:
        """Return the time, by the clock of the heartbeats."""
        with self._transaction() as connection:
            return _now(connection)

    @contextlib.contextmanager
    def present(self, name: str, groups: Sequence[str]) -> Iterator[None]:
        """Register this process as the worker of a name. Raises UsageError if another one runs."""
        me = this_process()
        self._enter(name, groups, me)
        ended = threading.Event()
        beating = threading.Thread(target=self._beat, args=(me, ended), daemon=True, name="alive")
        beating.start()
        try:
            yield
        finally:
            ended.set()
            beating.join()
            with contextlib.suppress(StoreError):  # the missing heartbeat will show it
                self._note(me, "seen_at", "ended_at")

    def _enter(self, name: str, groups: Sequence[str], me: ProcessId) -> None:
        with self._transaction() as connection:
            one_at_a_time(connection)
            now = _now(connection)
            other = next((d for d in _workers(connection) if d.name == name), None)
            if other is not None and other.may_live(now):
                raise UsageError(
                    f"there is a worker {name} already: pid {other.process.pid} on {other.host},"
                    f" last seen {now - other.seen_at:.0f} s ago",
                    "stop it, or choose another name with --name NAME",
                )
            row = {
                "name": name, "host": socket.gethostname(), "groups": list(groups), "began_at": now,
                "seen_at": now, "ended_at": None, **dataclasses.asdict(me),
            }  # fmt: skip
            connection.execute(delete(table).where(table.c.name == name))
            connection.execute(insert(table).values(**row))

    def _beat(self, me: ProcessId, ended: threading.Event) -> None:
        while not ended.wait(BEAT_S):
            with contextlib.suppress(StoreError):  # the next heartbeat may get through
                self._note(me, "seen_at")

    def _note(self, me: ProcessId, *times: str) -> None:
        mine = [table.c[key] == value for key, value in dataclasses.asdict(me).items()]
        with self._transaction() as connection:
            values = dict.fromkeys(times, _now(connection))
            connection.execute(update(table).where(*mine).values(**values))

    def _transaction(self) -> contextlib.AbstractContextManager[Connection]:
        return transaction(self._engine, self._place)


def _now(connection: Connection) -> float:
    """Return the time of the server, which all machines share; of this machine for a SQLite file."""
    if connection.dialect.name != "postgresql":
        return time.time()
    return float(connection.scalars(select(func.extract("epoch", func.clock_timestamp()))).one())


def _workers(connection: Connection) -> list[Worker]:
    return [
        Worker(
            name=row.name,
            host=row.host,
            groups=tuple(row.groups),
            process=ProcessId(row.pid, row.start_time, row.boot_id),
            began_at=row.began_at,
            seen_at=row.seen_at,
            ended_at=row.ended_at,
        )
        for row in connection.execute(select(table).order_by(table.c.name))
    ]


def this_process() -> ProcessId:
    """Return the identity of this process."""
    pid = os.getpid()
    return ProcessId(pid, _start_time(pid) or 0, _boot_id())


def _start_time(pid: int) -> int | None:
    """Return the start time of a process, or None if it does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field, the command, may contain blanks and parentheses. A zombie has ended.
    state, *fields = text[text.rindex(")") + 2 :].split()
    return None if state == "Z" else int(fields[18])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()

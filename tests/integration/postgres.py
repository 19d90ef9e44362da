"""A PostgreSQL server of our own: one directory, a Unix socket in it, no port; ended by pid."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PASSWORD = "open-sesame"
_START_TIMEOUT_S = 300.0


@dataclass
class Postgres:
    """A server that can be stopped and started again; every URL is of a database of its own."""

    programs: Path
    directory: Path
    user: str | None
    process: subprocess.Popen[bytes] = field(init=False)
    databases: int = 0

    def url(self, database: str, password: str = PASSWORD) -> str:
        return f"postgresql://perfrunner:{password}@/{database}?host={self.directory}"

    def new_database(self, encoding: str = "UTF8") -> str:
        """A fresh, empty one, as a URL."""
        import psycopg

        self.databases += 1
        name = f"results{self.databases}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            how = f"CREATE DATABASE {name} ENCODING {encoding} TEMPLATE template0"
            connection.execute(how.encode())
        return self.url(name)

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.directory / "data", "-k", self.directory, "-c", "fsync=off",
                 "-c", "listen_addresses="],
                stdout=log, stderr=log, user=self.user, cwd=self.directory,
            )  # fmt: skip
        _wait_until_ready(self)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # SIGTERM would wait for the clients
            self.process.wait(300)


def _programs() -> Path:
    """Where initdb and postgres are: Debian keeps them out of PATH."""
    matches = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3])
    )
    if not matches:
        pytest.skip("postgresql is not installed: scripts/test installs it")
    return matches[-1].parent


@contextlib.contextmanager
def raised_postgres() -> Iterator[Postgres]:
    """It refuses to run as root, so for root it is the user postgres that runs it."""
    programs = _programs()
    user = "postgres" if os.geteuid() == 0 else None
    directory = Path(tempfile.mkdtemp(prefix="perfrunner-pg-"))
    secret = directory / "password"
    secret.write_text(PASSWORD)
    if user is not None:
        account = pwd.getpwnam(user)
        for path in (directory, secret):
            os.chown(path, account.pw_uid, account.pw_gid)
    try:
        subprocess.run(
            [programs / "initdb", "-D", directory / "data", "-U", "perfrunner", "--auth=scram-sha-256",
             f"--pwfile={secret}", "--encoding=UTF8", "--locale=C", "--no-sync"],
            check=True, capture_output=True, timeout=60, user=user, cwd=directory,
        )  # fmt: skip
        server = Postgres(programs, directory, user)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory)


def _wait_until_ready(server: Postgres) -> None:
    import psycopg

    until = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            psycopg.connect(server.url("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            if server.process.poll() is not None or time.monotonic() > until:
                log = (server.directory / "log").read_text()
                raise RuntimeError(f"postgres did not start: {log}") from None
            time.sleep(0.1)
        else:
            return

"""What a worker makes of a database that is away (the worker itself: tests/integration/fleet)."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, OperationalError

from perfrunner.fleet.worker import not_reached


def heard(url: str) -> Engine:
    engine = create_engine(url)
    event.listen(engine, "handle_error", not_reached)
    return engine


def test_a_server_that_is_not_reached_is_a_lost_connection() -> None:
    """DBOS tries such a write again; of its own accord it gives up, and a job that has ended stays `running`."""
    with pytest.raises(OperationalError) as caught:
        heard("postgresql+psycopg://somebody@/jobs?host=/no/such/place").connect()
    assert caught.value.connection_invalidated


def test_a_files_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(DBAPIError) as caught:
        heard(f"sqlite:///{tmp_path}/no/such.sqlite").connect()
    assert not caught.value.connection_invalidated
    with pytest.raises(DBAPIError) as caught, heard("sqlite://").connect() as connection:
        connection.execute(text("SELECT * FROM nothing"))
    assert not caught.value.connection_invalidated

"""Convert errors of SQLite and PostgreSQL to StoreError: what is wrong, and what to do."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from perfrunner.errors import EXIT_AWAY, EXIT_USAGE, StoreError

# Starts of the names of SQLite's errors, message, and hint.
SQLITE_ERRORS: tuple[tuple[str | tuple[str, ...], str, str], ...] = (
    (
        "SQLITE_FULL",
        "no space left on the disk of {place}; all trials stored before are safe",
        "free some space and continue with --resume",
    ),
    (
        "SQLITE_BUSY",
        "{place} was locked by another program for {seconds:g} s; all trials stored before are safe",
        "close the program that writes to it (`fuser` names it; none: no file locks), then continue with --resume",
    ),
    (
        ("SQLITE_NOTADB", "SQLITE_CORRUPT"),
        "{place} is damaged: {text}",
        "restore it from a copy, or move it away to start with an empty store",
    ),
    ("SQLITE_CANTOPEN", "cannot open {place}: {text}", "is its directory readable and writable?"),
    (
        "SQLITE_READONLY",
        "cannot write {place}: {text}",
        "make it writable; a run continues with --resume",
    ),
    (
        "SQLITE_IOERR",
        "the disk of {place} failed: {text}",
        "once it works, a run continues with --resume",
    ),
)


SERVER_HINTS = {  # by the error codes of PostgreSQL
    "3F000": "no schema of the user's search_path exists: ALTER ROLE ... SET search_path, or CREATE SCHEMA",
    "42501": "ask for the right, or use another user; the tables of an older version are upgraded by their owner",
    "25006": "name the primary server, or a user that may write",
}


class ServerAwayError(StoreError):
    """An error: the server cannot be reached, or stopped during a request; it may be back soon."""

    exit_code = EXIT_AWAY


class StoreURLError(StoreError):
    """An error: the URL of a store is wrong, or its server refuses it. The same command will not succeed later."""

    exit_code = EXIT_USAGE


# A refused connection has no error code, only a text in the language of the server. A refused login quotes the user
# or the database. Nothing is quoted by a server that starts, stops or has too many clients, except a role's own limit.
_REFUSED = re.compile(
    r"failed: \S+:  (?!too many connections)[^/]*?[\"«»„“][^/\"]+[\"«»“”]"
    r"|authentication failed|no password supplied|no such (user|database)|unrecognized configuration"
    r"|invalid connection option|invalid \w+ value|bad value for|definition of service|does not support SSL"
    r"|certificate"
)


def explain(error: SQLAlchemyError, place: str, busy_s: float) -> StoreError:
    """Return the error to raise for one of the database `place`, which waited `busy_s` for a lock."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    sqlstate = getattr(cause, "sqlstate", None) or ""
    if "://" in place and not sqlstate and _REFUSED.search(text):
        return StoreURLError(
            f"{place}: {text}",
            "correct the user, password, database or options in the URL of --store (the password may be in ~/.pgpass"
            " instead), or let the server's administrator allow them",
        )
    if (
        "://" in place
        and isinstance(error, DBAPIError)
        # Or the server ended the session, which is not always an OperationalError.
        and (isinstance(error, OperationalError) or error.connection_invalidated)
    ):
        return ServerAwayError(f"{place}: {text}")
    if hint := SERVER_HINTS.get(sqlstate):
        return StoreError(f"{place}: {text}", hint)
    name = getattr(cause, "sqlite_errorname", _name_on_python_3_10(text))
    if name.startswith("SQLITE_CANTOPEN") and not Path(place).exists():
        return StoreError(
            f"{place} is not there any more: it was removed, or its disk is no longer mounted",
            "put it back, then continue with --resume",
        )
    for start, message, hint in SQLITE_ERRORS:
        if name.startswith(start):
            values = {"place": place, "text": text, "seconds": busy_s}
            return StoreError(message.format(**values), hint)
    return StoreError(f"{place}: {text}")


def _name_on_python_3_10(text: str) -> str:
    """Derive the error's name from its text; sqlite3 reports the name only since Python 3.11."""
    known = {
        "full": "SQLITE_FULL",
        "locked": "SQLITE_BUSY",
        "not a database": "SQLITE_NOTADB",
        "malformed": "SQLITE_CORRUPT",
        "unable to open": "SQLITE_CANTOPEN",
        "readonly": "SQLITE_READONLY",
        "disk I/O": "SQLITE_IOERR",
    }
    return next((name for part, name in known.items() if part in text), "")

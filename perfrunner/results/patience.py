"""What is written to a server outlasts its absence: a trial may have cost minutes."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TypeVar

from typing_extensions import ParamSpec

from perfrunner.errors import StoreError
from perfrunner.results.database import ServerAwayError

AWAY_S, AGAIN_S = 300.0, 1.0  # for so long a server may be away, asked so often


class AlreadyStoredError(StoreError):
    """Its place is taken."""


Args = ParamSpec("Args")
Answer = TypeVar("Answer")


def waiting(ask: Callable[[], Answer]) -> Answer:
    """What `ask` answers when the server is there; each try is a transaction of its own."""
    until = time.monotonic() + AWAY_S
    while True:
        try:
            return ask()
        except ServerAwayError:
            if time.monotonic() > until:
                raise
        time.sleep(AGAIN_S)


def outlasting(write: Callable[Args, None]) -> Callable[Args, None]:
    """A method of the store that waits for a server that is away."""

    @functools.wraps(write)
    def patient(*args: Args.args, **kwargs: Args.kwargs) -> None:
        tries = 0

        def once() -> None:
            nonlocal tries
            tries += 1
            try:
                write(*args, **kwargs)
            except AlreadyStoredError:
                if tries == 1:  # otherwise it was stored; that the server said so was lost
                    raise

        waiting(once)

    return patient

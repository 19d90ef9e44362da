"""What is written to a server outlasts its absence: a trial may have cost minutes."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from typing_extensions import ParamSpec

from perfrunner.errors import StoreError
from perfrunner.results.database import ServerAwayError

AWAY_S, AGAIN_S = 300.0, 1.0  # for so long a server may be away, asked so often


class AlreadyStoredError(StoreError):
    """Its place is taken."""


Args = ParamSpec("Args")


def outlasting(write: Callable[Args, None]) -> Callable[Args, None]:
    """A method of the store that waits for a server that is away; its transaction is begun anew then."""

    @functools.wraps(write)
    def patient(*args: Args.args, **kwargs: Args.kwargs) -> None:
        until, tried = time.monotonic() + AWAY_S, False
        while True:
            try:
                return write(*args, **kwargs)
            except ServerAwayError:
                if time.monotonic() > until:
                    raise
                tried = True
                time.sleep(AGAIN_S)
            except AlreadyStoredError:
                if tried:  # it was stored; that the server said so was lost
                    return None
                raise

    return patient

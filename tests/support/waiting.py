"""Tests wait for conditions, never for time."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """AssertionError, saying what did not come to be, when it takes longer than any machine needs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)

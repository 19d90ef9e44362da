"""Tests wait for conditions, never for time."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300.0  # far more than any machine needs: the limit only ends a test that hangs


def until(
    condition: Callable[[], object], what: str = "it never came true", seconds: float = PATIENCE_S
) -> None:
    """Wait for `condition`; fail with `what` if it does not become true within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)

"""Notice that this machine stood still during a trial: suspended, all processes stopped, or a paused virtual machine.

The slice during which that happens seems to belong to a slow variant: 8 s of it divided the total throughput of one of
two equal variants by 18 in that block. The rule knows of no variant, because it looks at a thread that only waits.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

LIMIT_S = 5.0  # a busy host may keep a thread from the CPU for a second or two
TICK_S = 0.25
# It goes on while the machine sleeps. macOS does not have it.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _now() -> float:
    return time.clock_gettime(_CLOCK)


class PauseWatch:
    """Measures how late a thread is woken that only waits."""

    def __init__(self, clock: Callable[[], float] = _now) -> None:
        self._clock = clock
        self._longest_s = 0.0

    def watch(self, wait: Callable[[float], bool]) -> None:
        """Measure the time between wake-ups, until `wait` returns true."""
        before, ended = self._clock(), False
        while not ended:
            ended = wait(TICK_S)
            now = self._clock()
            self._longest_s = max(self._longest_s, now - before)
            before = now

    @property
    def reasons(self) -> Sequence[str]:
        """Return the reason to discard all trials of the unit; empty if the machine did not stand still."""
        if self._longest_s < LIMIT_S:
            return []
        seconds = f"{self._longest_s:.0f} s"
        causes = "it was suspended, perfrunner was stopped, or its virtual machine was paused"
        return [f"this machine stood still for {seconds}: {causes}"]


@contextlib.contextmanager
def watch_pauses(clock: Callable[[], float] = _now) -> Iterator[PauseWatch]:
    """Watch for pauses from now on, in a thread that ends with the context."""
    watch, ended = PauseWatch(clock), threading.Event()
    thread = threading.Thread(target=watch.watch, args=(ended.wait,), daemon=True, name="pauses")
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()

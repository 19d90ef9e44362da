"""Ctrl-C, SIGTERM, and SIGHUP (the terminal or the SSH login is gone; not under nohup).

The first signal raises Interrupted in the main thread, so that the run unwinds: it stops its own processes, keeps
what was measured and prints how to go on. Inside `shield()` (a store transaction, starting a process and noting
it) the exception waits for the end of the shielded part. A second signal raises InterruptedTwice at once, shield or
not: the run then only kills what it owns and ends.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType

from typing_extensions import Self


class Interrupted(KeyboardInterrupt):
    """The first signal. A KeyboardInterrupt, so that no `except Exception` swallows it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum

    @property
    def signal_name(self) -> str:
        return signal.Signals(self.signum).name


class InterruptedTwice(Interrupted):
    """The second signal: end at once."""


class SignalGuard:
    """Owns the process's handlers of these signals while entered; puts the previous ones back.

    Outside the main thread signals cannot be handled: there it does nothing.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self._previous: dict[int, object] = {}
        self._shields = 0
        self._pending: int | None = None
        self._seen = 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for signum in self.SIGNALS:
                if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                    continue  # nohup
                self._previous[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)  # type: ignore[arg-type]
        self._previous.clear()

    @property
    def hurry(self) -> bool:
        """A second signal came: what is left to clean up gets no grace."""
        return self._seen > 1

    @contextlib.contextmanager
    def shield(self) -> Iterator[None]:
        """A first signal that arrives inside is raised when the outermost shield ends."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        if not self._shields and self._pending is not None:
            signum, self._pending = self._pending, None
            raise Interrupted(signum)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        del frame
        if signum == signal.SIGHUP and self._seen:
            return  # a closing terminal says it more than once; nobody is in a hurry
        self._seen += 1
        if self._seen > 1:
            raise InterruptedTwice(signum)
        if self._shields:
            self._pending = signum
        else:
            raise Interrupted(signum)

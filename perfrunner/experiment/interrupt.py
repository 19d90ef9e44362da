"""Handle the signals that end a run: Ctrl-C, SIGTERM, SIGHUP (a closed terminal or SSH session), and other fatal ones.

Those of a person or a batch system are in SIGNALS. One that is ignored, as SIGHUP under nohup, stays ignored.

The first signal raises Interrupted in the main thread. The run then stops its processes, keeps the completed trials
and prints how to resume. Inside `shield()` (a store transaction; starting and registering a process) the exception
is delayed until the shielded part ends. A second signal raises InterruptedTwice at once, even in a shield: the run
then only kills its processes and ends.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType

from typing_extensions import Self


class Interrupted(KeyboardInterrupt):
    """The exception of the first signal; a KeyboardInterrupt, so that no `except Exception` catches it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum

    @property
    def signal_name(self) -> str:
        return signal.Signals(self.signum).name


class InterruptedTwice(Interrupted):
    """The exception of the second signal: the run must end at once."""


class SignalGuard:
    """The signal handlers of a run, as a context manager that restores the previous ones.

    Outside the main thread signals cannot be handled, and it does nothing.
    """

    SIGNALS = (
        signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
        signal.SIGXCPU,
    )  # fmt: skip

    def __init__(self) -> None:
        self._previous: dict[int, object] = {}
        self._shields = 0
        self._pending: int | None = None
        self._seen = 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for signum in self.SIGNALS:
                asked = signum in (signal.SIGINT, signal.SIGTERM)  # ignored in a shell's background
                if not asked and signal.getsignal(signum) == signal.SIG_IGN:
                    continue
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
        """Return whether a second signal arrived, so that processes are killed without a grace period."""
        return self._seen > 1

    @contextlib.contextmanager
    def shield(self) -> Iterator[None]:
        """Delay a first signal that arrives inside until the outermost shield ends."""
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
            return  # a closing terminal may send SIGHUP more than once
        self._seen += 1
        if self._seen > 1:
            raise InterruptedTwice(signum)
        if self._shields:
            self._pending = signum
        else:
            raise Interrupted(signum)

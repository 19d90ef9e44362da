"""Charts are drawn on several CPUs: matplotlib keeps one busy for a tenth of a second or two a chart.

The processes are forked, so that what is drawn from is there already; what they draw comes back through pipes. Where a
fork is not safe (beside a running thread, or not on Linux) and where there is one CPU, all is done here. The results
are the same.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import traceback
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from perfrunner.errors import PerfrunnerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess
    from types import FrameType

    Pipe = Connection[Any, Any]

T = TypeVar("T")
MOST = 8  # processes; beyond it they wait for the one that collects
OBJECTS = 200_000  # new ones, before garbage is searched for
LEAST_TASKS = 3  # of each process; fewer are not worth a fork


class _Answer(NamedTuple):
    """Of one task; `error` and its traceback where it failed."""

    place: int
    result: Any
    error: Exception | None = None
    told: str = ""


class _Interrupts:
    """Ctrl-C goes to the handler that there was, once; what follows it, or comes while it is `held`, waits for the end.

    No signal mask: it holds for one thread, any other (a BLAS's pool) takes the signal, and Python's handler runs here.
    The processes inherit this handler, held: an interrupt is for us, and we end them.
    """

    def __init__(self) -> None:
        self.held = True
        self._waits = False
        self._before = signal.getsignal(signal.SIGINT)
        self._handles = (
            callable(self._before) and threading.current_thread() is threading.main_thread()
        )
        if self._handles:
            signal.signal(signal.SIGINT, self._handle)

    def pass_on(self) -> None:
        """From now on they are not held; raises for one that waits."""
        self.held = False
        if self._waits:
            self._handle(signal.SIGINT, None)

    def give_back(self) -> None:
        """The handler that there was is there again; raises for one that waits."""
        if self._handles:
            signal.signal(signal.SIGINT, self._before)
            if self._waits:
                self._call(None)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        del signum
        if self.held:
            self._waits = True
            return
        self.held, self._waits = True, False
        self._call(frame)

    def _call(self, frame: FrameType | None) -> None:
        if callable(self._before):
            self._before(signal.SIGINT, frame)


def share_out(tasks: Sequence[Callable[[], T]], processes: int | None = None) -> list[T]:
    """What each task returns, in their order.

    What a task returns or raises must be picklable. The exception of a task ends all, as an interrupt does. `processes`
    is for tests: by default as many as are of use.
    """
    if processes is None:
        processes = _of_use(len(tasks))
    if processes < 2:
        with _old_set_apart():
            return [task() for task in tasks]
    found: dict[int, T] = {}
    workers: dict[Pipe, ForkProcess] = {}
    interrupts = _Interrupts()
    try:
        _fork(tasks, processes, workers)
        interrupts.pass_on()
        ahead = iter(range(len(tasks)))
        for pipe in workers:
            _give(pipe, ahead)
        while len(found) < len(tasks):
            for pipe in cast("list[Pipe]", wait(list(workers))):
                answer = _answer(pipe, workers[pipe])
                found[answer.place] = answer.result
                _give(pipe, ahead)
    finally:
        try:
            interrupts.held = True
        finally:  # an interrupt that is raised above holds back all that follow it
            _end(workers)
            interrupts.give_back()
    return [found[index] for index in range(len(tasks))]


def _of_use(tasks: int) -> int:
    if sys.platform != "linux" or threading.active_count() > 1:
        return 1
    return min(len(os.sched_getaffinity(0)), MOST, tasks // LEAST_TASKS)


def _give(pipe: Pipe, ahead: Iterator[int]) -> None:
    """The next task, if there is one."""
    index = next(ahead, None)
    if index is not None:
        with suppress(BrokenPipeError):  # it has died: the next look at its pipe says so
            pipe.send(index)


def _answer(pipe: Pipe, process: ForkProcess) -> _Answer:
    try:
        answer: _Answer = pipe.recv()
    except EOFError:
        process.join()
        raise PerfrunnerError(
            f"a process that drew charts has died (exit code {process.exitcode})",
            "memory may have run out: taskset -c 0 perfrunner ... draws them one after the other",
        ) from None
    if answer.error is not None:
        raise answer.error from RuntimeError(f"in a process that drew charts:\n{answer.told}")
    return answer


def _fork(
    tasks: Sequence[Callable[[], Any]], processes: int, workers: dict[Pipe, ForkProcess]
) -> None:
    """Processes that wait for tasks are put into `workers`, by our end of their pipes. None outlives this process."""
    context = get_context("fork")
    for _ in range(processes):
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(tasks, theirs, [*workers, ours]), daemon=True)
        process.start()
        workers[ours] = process
        theirs.close()


def _end(workers: dict[Pipe, ForkProcess]) -> None:
    for process in workers.values():
        process.kill()  # they hold nothing that is to be put in order
    for pipe, process in workers.items():
        pipe.close()
        process.join()


def _work(tasks: Sequence[Callable[[], Any]], pipe: Pipe, others: Sequence[Pipe]) -> None:
    for other in others:
        other.close()  # else it would hold its own pipe open, and wait for ever where its parent is killed
    with _old_set_apart(), suppress(EOFError, OSError):  # its parent is gone
        while True:
            pipe.send(_done(pipe.recv(), tasks))


@contextmanager
def _old_set_apart() -> Iterator[None]:
    """What is there already is no garbage, and a figure leaves tens of thousands of objects at once: to search at
    Python's pace takes a tenth of the time.
    """
    enabled, pace = gc.isenabled(), gc.get_threshold()
    gc.freeze()
    gc.set_threshold(OBJECTS)
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*pace)
        if not enabled:
            gc.disable()


def _done(index: int, tasks: Sequence[Callable[[], Any]]) -> _Answer:
    try:
        return _Answer(index, tasks[index]())
    except Exception as error:  # noqa: BLE001 - the parent raises it
        return _Answer(index, None, error, traceback.format_exc())

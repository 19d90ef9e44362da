"""Draw charts on several CPUs: matplotlib needs a tenth of a second or two of CPU time for a chart.

The processes are forked, so they share the data; their results come back through pipes. This process draws all charts
itself if a fork is not safe (with running threads, or not on Linux) or if there is one CPU. The results are the same.
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
MOST = 8  # processes; more would wait for the process that collects
OBJECTS = 200_000  # new objects before garbage collection
LEAST_TASKS = 3  # tasks of each process; fewer are not worth a fork


class _Answer(NamedTuple):
    """The answer to one task; a failed task has `error` and its traceback."""

    place: int
    result: Any
    error: Exception | None = None
    traceback: str = ""


class _Interrupts:
    """A SIGINT handler that passes the first Ctrl-C to the previous handler and delays others, or all while `held`.

    A signal mask does not work: it applies to one thread, another thread (such as a BLAS pool) takes the signal, and
    Python runs its handler here. The processes inherit this handler in held state; the parent ends them.
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
        """Stop holding interrupts; raise for one that waits."""
        self.held = False
        if self._waits:
            self._handle(signal.SIGINT, None)

    def give_back(self) -> None:
        """Restore the previous handler; raise for an interrupt that waits."""
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
    """Run the tasks and return their results in order.

    Results and exceptions must be picklable. An exception or an interrupt ends all tasks. `processes` is for
    tests; the default is as many as are useful.
    """
    if processes is None:
        processes = _of_use(len(tasks))
    if processes < 2:
        with _old_set_apart():
            return [task() for task in tasks]
    results: dict[int, T] = {}
    workers: dict[Pipe, ForkProcess] = {}
    interrupts = _Interrupts()
    try:
        _fork(tasks, processes, workers)
        interrupts.pass_on()
        ahead = iter(range(len(tasks)))
        for pipe in workers:
            _give(pipe, ahead)
        while len(results) < len(tasks):
            for pipe in cast("list[Pipe]", wait(list(workers))):
                answer = _answer(pipe, workers[pipe])
                results[answer.place] = answer.result
                _give(pipe, ahead)
    finally:
        try:
            interrupts.held = True
        finally:  # after an interrupt was raised above, later ones are held
            _end(workers)
            interrupts.give_back()
    return [results[index] for index in range(len(tasks))]


def _of_use(tasks: int) -> int:
    if sys.platform != "linux" or threading.active_count() > 1:
        return 1
    return min(len(os.sched_getaffinity(0)), MOST, tasks // LEAST_TASKS)


def _give(pipe: Pipe, ahead: Iterator[int]) -> None:
    """Send the next task, if there is one."""
    index = next(ahead, None)
    if index is not None:
        with suppress(
            BrokenPipeError
        ):  # the process has died; the next read of its pipe reports it
            pipe.send(index)


def _answer(pipe: Pipe, process: ForkProcess) -> _Answer:
    try:
        answer: _Answer = pipe.recv()
    except EOFError:
        process.join()
        raise PerfrunnerError(
            f"a chart process died (exit code {process.exitcode})",
            "memory may have run out: taskset -c 0 perfrunner ... draws them one after the other",
        ) from None
    if answer.error is not None:
        raise answer.error from RuntimeError(f"in a chart process:\n{answer.traceback}")
    return answer


def _fork(
    tasks: Sequence[Callable[[], Any]], processes: int, workers: dict[Pipe, ForkProcess]
) -> None:
    """Start processes that wait for tasks, and add them to `workers` by pipe. None outlives this process."""
    context = get_context("fork")
    for _ in range(processes):
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(tasks, theirs, [*workers, ours]), daemon=True)
        process.start()
        workers[ours] = process
        theirs.close()


def _end(workers: dict[Pipe, ForkProcess]) -> None:
    for process in workers.values():
        process.kill()  # they have nothing to clean up
    for pipe, process in workers.items():
        pipe.close()
        process.join()


def _work(tasks: Sequence[Callable[[], Any]], pipe: Pipe, others: Sequence[Pipe]) -> None:
    for other in others:
        other.close()  # otherwise it keeps its own pipe open and waits forever if its parent is killed
    with _old_set_apart(), suppress(EOFError, OSError):  # the parent has exited
        while True:
            pipe.send(_done(pipe.recv(), tasks))


@contextmanager
def _old_set_apart() -> Iterator[None]:
    """Exclude existing objects from garbage collection and collect less often.

    A figure creates tens of thousands of objects at once; the default rate of collection costs a tenth of the time.
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

"""Draw charts on several CPUs: matplotlib needs a tenth of a second or two of CPU time for a chart.

The processes are forked, so they share the data; their results come back through pipes. This process draws all charts
itself if a fork is not safe (with running threads, or not on Linux) or if there is one CPU. The results are the same.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, TypeVar

from perfrunner.errors import PerfrunnerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")
MOST = 8  # processes; more would wait for the process that collects
OBJECTS = 200_000  # new objects before garbage collection
LEAST_TASKS = 3  # tasks of each process; fewer are not worth a fork
PR_SET_PDEATHSIG = 1  # prctl(2)

# In a forked process: its tasks. A task is data of a report, and its copy by pickle would cost more than its chart.
_inherited: Sequence[Callable[[], Any]] = ()


def share_out(tasks: Sequence[Callable[[], T]], processes: int | None = None) -> list[T]:
    """Run the tasks and return their results in order.

    Results and exceptions must be picklable. An exception, or Ctrl-C, ends the tasks that have not begun, and is raised
    when the others have ended. `processes` is for tests; the default is as many as are useful.
    """
    if processes is None:
        processes = _of_use(len(tasks))
    if processes < 2:
        with _old_set_apart():
            return [task() for task in tasks]
    with ProcessPoolExecutor(
        processes, get_context("fork"), _inherit, (tasks, os.getpid())
    ) as pool:
        try:
            return list(pool.map(_run, range(len(tasks))))
        except BrokenProcessPool as error:
            raise PerfrunnerError(
                "a chart process died",
                "memory may have run out: taskset -c 0 perfrunner ... draws them one after the other",
            ) from error


def _of_use(tasks: int) -> int:
    if sys.platform != "linux" or threading.active_count() > 1:
        return 1
    return min(len(os.sched_getaffinity(0)), MOST, tasks // LEAST_TASKS)


def _inherit(tasks: Sequence[Callable[[], Any]], parent: int) -> None:
    """Prepare a forked process: it leaves Ctrl-C to its parent, and ends with it however that ends."""
    global _inherited  # noqa: PLW0603 - a fork is the only way to pass the tasks without a copy
    _inherited = tasks
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os._exit(1)
    _set_old_apart()


def _run(index: int) -> Any:
    return _inherited[index]()


@contextmanager
def _old_set_apart() -> Iterator[None]:
    """Run a block with garbage collection as a chart process has it."""
    enabled, pace = gc.isenabled(), gc.get_threshold()
    _set_old_apart()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*pace)
        if not enabled:
            gc.disable()


def _set_old_apart() -> None:
    """Exclude existing objects from garbage collection and collect less often.

    A figure creates tens of thousands of objects at once; the default rate of collection costs a tenth of the time.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS)
    gc.enable()

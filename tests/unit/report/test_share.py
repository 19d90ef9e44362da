"""Charts by several processes: the same results, and none of them is left, whatever ends it."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from perfrunner.errors import PerfrunnerError, StoreError
from perfrunner.report.charts.gallery import share_out

PARENT_IS_KILLED = """
import os, sys
from perfrunner.report.charts.gallery import share_out

def task():
    os.write(1, b"begun ")
    return os.read(0, 1)

share_out([task] * 4, 2)
"""


@pytest.fixture
def pids():
    """note() in a process keeps its pid; taken() gives them all."""
    read, write = os.pipe()

    class Pids:
        def note(self):
            os.write(write, f"{os.getpid()}\n".encode())

        def taken(self):
            os.set_blocking(read, False)
            return [int(pid) for pid in os.read(read, 1000).split()]

    yield Pids()
    os.close(read)
    os.close(write)


def are_gone(pids):
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    return len(pids)


@pytest.mark.parametrize("processes", [1, 2, 3, None])
def test_results_come_in_the_order_of_the_tasks(processes):
    words = [bytes([n]) * 100_000 for n in range(7)]
    assert share_out([partial(bytes, word) for word in words], processes) == words
    assert share_out([], processes) == []


def test_charts_are_drawn_without_shared_memory(monkeypatch):
    """A container may have no /dev/shm, or a read-only one."""
    tried = []

    def refused(*_):
        tried.append(True)
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("multiprocessing.synchronize._multiprocessing.SemLock", refused)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr("threading.active_count", lambda: 1)  # other tests may have left threads
    assert share_out([partial(bytes, 3)] * 12) == [bytes(3)] * 12
    assert tried


def test_tasks_run_at_once_and_not_here(pids):
    """Each waits for the other; one after the other they would wait indefinitely."""
    to_first, to_second = os.pipe(), os.pipe()

    def meet(mine, others):
        pids.note()
        os.write(others[1], b"x")
        return os.read(mine[0], 1)

    tasks = [partial(meet, to_first, to_second), partial(meet, to_second, to_first)]
    assert share_out(tasks, 2) == [b"x", b"x"]
    noted = pids.taken()
    assert os.getpid() not in noted
    assert are_gone(noted) == 2
    for end in (*to_first, *to_second):
        os.close(end)


def test_an_exception_is_raised_here_with_where_it_happened(pids):
    def fails():
        pids.note()
        raise StoreError("no room", "make some")

    with pytest.raises(StoreError, match="no room") as raised:
        share_out([fails, pids.note], 2)
    assert raised.value.hint == "make some"
    assert "in fails" in str(raised.value.__cause__)
    assert are_gone(pids.taken()) > 0


def test_a_process_that_dies_is_an_error(pids):
    def dies():
        pids.note()
        os._exit(9)

    with pytest.raises(PerfrunnerError, match="died"):
        share_out([dies, dies], 2)
    assert are_gone(pids.taken()) > 0


def test_an_interrupt_reaches_only_this_process(pids, capfd):
    """Ctrl-C in a terminal sends the signal to all of them."""

    def interrupted(also):
        for pid in (os.getpid(), *also):
            os.kill(pid, signal.SIGINT)
        pids.note()

    with pytest.raises(KeyboardInterrupt):
        share_out([partial(interrupted, also) for also in ([os.getpid()], [])], 2)
    assert are_gone(pids.taken()) > 0
    assert capfd.readouterr().err == ""


def test_no_process_outlives_a_killed_parent():
    held, alive = os.pipe()  # its other end closes when the last process has gone
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT_IS_KILLED],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[alive],
    )  # fmt: skip
    os.close(alive)
    begun = b""
    while begun.count(b"begun") < 2:
        begun += os.read(parent.stdout.fileno(), 100)
    parent.kill()
    with contextlib.suppress(BrokenPipeError):  # they may be gone already
        parent.stdin.write(b"xx")
        parent.stdin.flush()
    assert os.read(held, 1) == b""
    os.close(held)
    assert parent.communicate()[1] == b""

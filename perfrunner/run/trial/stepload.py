"""A load that goes on while its cluster changes: begun, left alone, changed under, left alone, ended.

The step is timed here and the load counts there, on another host perhaps: its clock is asked how far it is ahead of our
monotonic one, so that a step of the clock here moves nothing.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from perfrunner.cluster.transport import Transport
from perfrunner.errors import TrialError
from perfrunner.run.trial.clientseat import ClientSeat, client_failure
from perfrunner.workloads.bench import Arguments, Around, Share, Step

if TYPE_CHECKING:
    from perfrunner.run.trial.serverbench import Bench, Started

POLL_S = 0.02
CLOCK_QUESTIONS = 3


def load_around(
    bench: Bench,
    tool: str,
    arguments: Arguments,
    step: Step,
    *,
    output: str,
    before: float,
    after: float,
) -> Around:
    def with_begun(share: Share) -> Sequence[str]:
        seat = bench.seats[share.index]  # one process a client
        return [*arguments(share), f"--begun={_begun_file(seat, output)}"]

    commands = [(seat, [f"{seat.tools}/bin/{tool}"]) for seat in bench.seats]
    started = bench.start_clients(commands, with_begun, output, in_step=True)
    look = _looker(tool, started)
    begun = [_wait_begun(bench, one, output, look) for one in started]
    first = bench.seats[0].host
    zero = begun[0] - clock_ahead(first)  # of the load, by our monotonic clock

    bench.pause(before, look)
    began = time.monotonic()
    said = step()
    ended = time.monotonic()
    bench.pause(after, look)

    for one in started:
        bench.recorder.signal(one.seat.host.name, one.name, "TERM")
        one.handle.signal(signal.SIGTERM)
    bench.wait_clients(tool, started, bench.check_engines)
    return Around(bench.printed(started), began - zero, ended - zero, said)


def clock_ahead(host: Transport) -> float:
    """A host's clock minus our monotonic one, give or take half the time of the quickest question."""
    answers = []
    for _ in range(CLOCK_QUESTIONS):
        asked = time.monotonic()
        there = float(host.run(["date", "+%s.%N"]).stdout)
        answered = time.monotonic()
        answers.append((answered - asked, there - (asked + answered) / 2))
    return min(answers)[1]


def _begun_file(seat: ClientSeat, output: str) -> str:
    return f"{seat.directory}/{output}.begun"


def _wait_begun(bench: Bench, started: Started, output: str, look: Callable[[], None]) -> float:
    """When the process's mixed phase began, in seconds since 1970 by its host's clock."""
    host, path = started.seat.host, _begun_file(started.seat, output)
    bench.recorder.wait_for_file(host.name, path)
    while not host.exists(path):
        look()
        bench.check_engines()
        bench.time_left()
        time.sleep(POLL_S)
    text = host.read_text(path).strip()
    if not text.isdigit():
        raise TrialError(f"{path} on {host.name} holds no time, but {text[:40]!r}")
    return int(text) / 1e9


def _looker(tool: str, started: Sequence[Started]) -> Callable[[], None]:
    """Raises TrialError when one of them has ended: none may before it is told to."""

    def look() -> None:
        for one in started:
            if (status := one.handle.poll()) is not None:
                raise client_failure(tool, one.seat, one.name, status)

    return look

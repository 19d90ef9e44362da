"""Run a load before, during and after a step that changes its cluster.

The step is timed on this machine, and the load counts on its client. The offset between the client's clock and the
local monotonic clock is measured, so that an adjustment of the local wall clock has no effect.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.placement import ClientPlacement, client_failure
from perfrunner.hosts.transport import Transport
from perfrunner.workloads.bench import Arguments, Around, Share, Step

if TYPE_CHECKING:
    from perfrunner.experiment.trial.bench import Bench, Started

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
        placement = bench.placements[share.index]  # one process per client
        return [*arguments(share), f"--begun={_begun_file(placement, output)}"]

    commands = [(placement, [f"{placement.tools}/bin/{tool}"]) for placement in bench.placements]
    started = bench.start_clients(commands, with_begun, output, in_step=True)
    check = _liveness_check(tool, started)
    begun = [_wait_begun(bench, client, output, check) for client in started]
    first = bench.placements[0].host
    zero = begun[0] - clock_ahead(first)  # start of the load on the local monotonic clock

    bench.pause(before, check)
    began = time.monotonic()
    facts = step()
    ended = time.monotonic()
    bench.pause(after, check)

    for client in started:
        bench.recorder.signal(client.placement.host.name, client.name, "TERM")
        client.handle.signal(signal.SIGTERM)
    bench.wait_clients(tool, started, bench.check_engines)
    return Around(bench.printed(started), began - zero, ended - zero, facts)


def clock_ahead(host: Transport) -> float:
    """Return a host's clock minus the local monotonic clock, within half the fastest round trip."""
    answers = []
    for _ in range(CLOCK_QUESTIONS):
        asked = time.monotonic()
        there = float(host.run(["date", "+%s.%N"]).stdout)
        answered = time.monotonic()
        answers.append((answered - asked, there - (asked + answered) / 2))
    return min(answers)[1]


def _begun_file(placement: ClientPlacement, output: str) -> str:
    return f"{placement.directory}/{output}.begun"


def _wait_begun(bench: Bench, started: Started, output: str, check: Callable[[], None]) -> float:
    """Wait for the mixed phase; return its start in seconds since 1970 by the host's clock."""
    host, path = started.placement.host, _begun_file(started.placement, output)
    bench.recorder.wait_for_file(host.name, path)
    while not host.exists(path):
        check()
        bench.check_engines()
        bench.time_left()
        time.sleep(POLL_S)
    text = host.read_text(path).strip()
    if not text.isdigit():
        raise TrialError(f"{path} on {host.name}: expected a time, got {text[:40]!r}")
    return int(text) / 1e9


def _liveness_check(tool: str, started: Sequence[Started]) -> Callable[[], None]:
    """Return a function that raises TrialError if a load process has ended early."""

    def check() -> None:
        for client in started:
            if (status := client.handle.poll()) is not None:
                raise client_failure(tool, client.placement, client.name, status)

    return check

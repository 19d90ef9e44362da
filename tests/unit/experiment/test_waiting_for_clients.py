"""Load processes that wait for each other: the first that fails is noticed, whichever it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.bench import Bench, Started
from perfrunner.experiment.trial.placement import ClientPlacement, CredentialFiles
from perfrunner.experiment.trial.reproduce import ScriptRecorder
from perfrunner.hosts.process import CommandTimeout, Completed, ExitStatus, StopResult
from perfrunner.workloads.bench import Share
from tests.support.trials import open_trial


class Process:
    """Ends with `status` when it is first looked at; None: never."""

    def __init__(self, status: ExitStatus | None) -> None:
        self.status = status

    def wait(self, timeout: float) -> ExitStatus:
        if self.status is None:
            raise CommandTimeout("it runs")
        return self.status

    def stop(self, grace_s: float) -> StopResult:
        return StopResult(self.status or ExitStatus(signal=15), killed=False)


class Host:
    """Starts the processes that it was given, in order."""

    name = "load1"
    log = "Traceback\nKeyError: 'x'\n"

    def __init__(self, *processes: Process) -> None:
        self.processes = list(processes)

    def start(self, *_: Any, **__: Any) -> Process:
        return self.processes.pop(0)

    def run(self, argv: Any, **_: Any) -> Completed:
        return Completed(tuple(argv), 0, self.log, "")


def bench(host: Any, directory: Path) -> Bench:
    recorder = ScriptRecorder("test")
    recorder.add_host("load1", ssh=None, artifact="/a", tools="/t", work={}, script_work="/w")
    return Bench(
        engines=[],
        placements=[ClientPlacement(host, "/t", "/w", CredentialFiles("/s"))],
        trial=open_trial(directory, recorder, deadline=time.monotonic() + 20.0),
        seed=1,
        vbuckets=64,
        replicas=0,
    )


def test_one_that_fails_is_noticed_while_another_waits_for_it(tmp_path: Path) -> None:
    made = bench(Host(Process(None), Process(ExitStatus(code=1))), tmp_path)
    (placement,) = made.placements
    started = [
        Started(placement, name, made.start_client(["x"], placement, name))
        for name in ("client-1", "client-2")
    ]
    with pytest.raises(TrialError, match=r"sdk on load1 failed \(exit 1\): Traceback \| KeyError"):
        made.wait_clients("sdk", started, lambda: None)


def test_what_processes_leave_lies_on_their_own_client(tmp_path: Path) -> None:
    made = bench(Host(), tmp_path)
    (placement,) = made.placements
    other = ClientPlacement(placement.host, "/t", "/elsewhere", placement.credentials)
    made.placements = [placement, other]
    kept = [made.kept_for(Share(n, 6), "versions") for n in range(6)]
    assert kept == [f"/w/versions-{n}" for n in (1, 2, 3)] + [
        f"/elsewhere/versions-{n}" for n in (4, 5, 6)
    ]

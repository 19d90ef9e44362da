"""Hold everything that belongs to one variant's trial: what runs, its directories, script, deadline, signals, facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from perfrunner.domain import TrialKey
from perfrunner.experiment.trial.placement import Deployed
from perfrunner.experiment.trial.reproduce import ScriptRecorder
from perfrunner.hosts.process import ProcessHandle
from perfrunner.hosts.transport import Transport

SAMPLE_INTERVAL_MS = 1000


@dataclass
class TrialContext:
    """The trial of one variant in progress, as its servers, clients, programs and profilers see it.

    TrialSetup and TrialRunner add to `facts`, which are stored with the result.
    """

    task: TrialKey
    deployed: Deployed
    directory: Path  # of the trial on this machine
    remote_name: str  # of its directories on the hosts
    recorder: ScriptRecorder
    run_id: str
    deadline: float  # monotonic
    shield: Callable[[], AbstractContextManager[None]]  # holds signals back
    sample_interval_ms: int = SAMPLE_INTERVAL_MS
    profiled: bool = False  # record a CPU profile with perf
    facts: dict[str, object] = field(default_factory=dict)

    def start(
        self,
        host: Transport,
        argv: Sequence[str],
        name: str,
        log: str,
        handles: list[ProcessHandle],
        env: Mapping[str, str] | None = None,
    ) -> ProcessHandle:
        """Start a process in the directory of its log, and add it to `handles` before a signal can arrive.

        `log` is the path on the host of what it prints. Its errors go to `<name>.log` in the same directory.
        """
        directory = log.rpartition("/")[0]
        with self.shield():
            handle = host.start(
                argv,
                name=self.recorder.job(name),
                log_stdout=log,
                log_stderr=f"{directory}/{name}.log",
                env=env,
                cwd=directory,
                run_id=self.run_id,
            )
            handles.append(handle)
        return handle

"""The verbs of an arm that needs no engine server, carried out on an engine node (workloads.bench.ToolBench).

The program runs on the first engine node, in a process group of its own that the host's ledger knows, with the
environment that an engine of the variant gets. Its temporary files lie in the trial's directory there, so that they are
on the same disk as an engine's data and go with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from perfrunner.build.readback import Stats, check_complaints, check_readback
from perfrunner.cluster.process import ProcessHandle
from perfrunner.cluster.transport import CommandTimeout, Transport
from perfrunner.errors import ProofError, TrialError
from perfrunner.run.trial.lastwords import last_words
from perfrunner.run.trial.profiling import Profiler, find_child
from perfrunner.run.trial.reproduce import ArmRecorder
from perfrunner.spec.variant import Variant

_ALLOCATOR = "allocator."
_BUILD = "build."


@dataclass
class ToolBench:
    """Implements workloads.bench.ToolBench. One program at a time; `abandon` stops the one under way."""

    host: Transport
    artifact: str
    tools: str  # the artifact that the conductor is from
    remote: str  # the trial's directory on the host
    directory: Path  # of the trial, on this machine
    variant: Variant
    env: Mapping[str, str]
    recorder: ArmRecorder
    run_id: str
    deadline: float  # monotonic
    shield: Callable[[], AbstractContextManager[None]]  # around starting a process and noting it
    profiler: Profiler | None = None
    current_phase: str = "start"
    _process: ProcessHandle | None = field(default=None, init=False)

    def tool(self, program: str, arguments: Sequence[str], *, output: str) -> str:
        argv = [f"{self.artifact}/bin/{program}", *arguments]
        self.start(argv, self.environment, output)
        if self.profiler is not None and self._process is not None:
            self.profiler.start(self.host, self.remote, self._process.pid)
        self.wait(program, output)
        self.stop_profiling()
        kept = self.directory / f"{output}.json"
        self.host.get_file(f"{self.remote}/{output}.json", kept)
        self.check_complaints(self.host.read_text(f"{self.remote}/{output}.log"))
        return kept.read_text(encoding="utf-8")

    def check_settings(self, settings: Mapping[str, str]) -> None:
        try:
            # A variant's params are the engine's: a program without an engine has none.
            check_readback(self.variant, {}, stat_groups(settings))
        except ProofError as error:
            raise TrialError(str(error), hint=error.hint) from error

    def check_complaints(self, said: str) -> None:
        """An option that the allocator ignores is no option: what it says of it stands in the log."""
        try:
            check_complaints(self.variant, said)
        except ProofError as error:
            raise TrialError(str(error), hint=error.hint) from error

    # -- for the trial

    @property
    def environment(self) -> dict[str, str]:
        """Of the arm's program; `TMPDIR` is no other arm's."""
        return {"TMPDIR": self.remote, **self.env}

    def profile_child_of(self, conductor: ToolBench) -> None:
        """Record this arm's program, which another arm's process starts."""
        if self.profiler is None or conductor._process is None:
            return
        mark = f"TMPDIR={self.environment['TMPDIR']}"
        pid = find_child(self.host, conductor._process, mark)
        if pid is not None:
            self.profiler.start(self.host, self.remote, pid)

    def stop_profiling(self) -> None:
        """The program has ended, and perf with it."""
        if self.profiler is not None:
            self.profiler.stop()

    def start(self, argv: Sequence[str], env: Mapping[str, str], output: str) -> None:
        """A process on the engine node that prints `<output>.json`; `wait` is to follow."""
        self.recorder.start(self.host.name, output, argv, env)
        with self.shield():
            self._process = self.host.start(
                argv,
                name=self.recorder.job(output),
                log_stdout=f"{self.remote}/{output}.json",
                log_stderr=f"{self.remote}/{output}.log",
                env=env,
                cwd=self.remote,
                run_id=self.run_id,
            )

    def wait(self, program: str, output: str) -> None:
        """Until it has ended well."""
        assert self._process is not None
        self.recorder.wait(output)
        self._wait(self._process, program, f"{self.remote}/{output}.log")

    def abandon(self, grace_s: float) -> None:
        if self.profiler is not None:
            self.profiler.abandon(grace_s)
        if self._process is not None:
            self._process.stop(grace_s)
            self._process = None

    # -- inside

    def _wait(self, process: ProcessHandle, program: str, log: str) -> None:
        left = self.deadline - time.monotonic()
        try:
            status = process.wait(max(0.0, left))
        except CommandTimeout:
            raise TrialError(
                f"the trial's time is up, in phase {self.current_phase} ({program})",
                hint="limits.trial_timeout sets it",
            ) from None
        process.stop(0.0)  # it has ended: this takes it out of the host's ledger
        self._process = None
        if not status.ok:
            words = last_words(self.host, log) or "silent"
            raise TrialError(f"{program} on {self.host.name} failed ({status}): {words}")


def stat_groups(settings: Mapping[str, str]) -> Stats:
    """What a program reports about itself (`build.x`, `allocator.x`) as the engine's STAT groups would say it."""
    return {
        "config": {key: value for key, value in settings.items() if key.startswith(_BUILD)},
        "allocator": {
            key.removeprefix(_ALLOCATOR): value
            for key, value in settings.items()
            if key.startswith(_ALLOCATOR)
        },
    }

"""One engine process of one trial: started on empty data, asked, stopped. And the questions it answers through kvctl.

The engine writes its port to a file when it is ready to serve; until then it is watched for an early death. Whoever
starts an Engine must call `stop` (or `abandon`), whatever happens in between.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfrunner.cluster.process import ProcessHandle
from perfrunner.cluster.transport import Completed, Transport
from perfrunner.errors import TrialError
from perfrunner.measure.samples import numbers
from perfrunner.run.trial.credentials import USER, CredentialFiles
from perfrunner.run.trial.lastwords import last_words
from perfrunner.run.trial.pinning import pinned
from perfrunner.run.trial.reproduce import ArmRecorder

READY_POLL_S = 0.05
STOP_GRACE_S = 60.0  # at least: a clean stop persists what is queued, perhaps millions of documents
KILL_TIMEOUT_S = 30.0  # for the kernel to take a large process apart


@dataclass(frozen=True)
class EngineSetup:
    """All that the command line of an engine says."""

    name: str  # of the process and its log: "engine", or "engine-<host>" when there are several
    artifact: str
    tools: str  # the artifact that kvctl is from
    directory: str  # the trial's directory on the host
    credentials: CredentialFiles
    listen: str  # the address it binds
    address: str  # where clients reach it
    port: int  # 0: any
    bucket: str
    quota_mb: int
    vbuckets: int
    threads: int
    shards: int
    params: Mapping[str, str]
    env: Mapping[str, str]
    cpus: str = ""  # where its threads run; empty: anywhere
    follows: bool = False  # other nodes, when it is told which

    @property
    def port_file(self) -> str:
        return f"{self.directory}/{self.name}.port"

    @property
    def log(self) -> str:
        return f"{self.directory}/{self.name}.log"

    def argv(self) -> list[str]:
        command = [
            f"{self.artifact}/bin/kv_engine",
            f"--host={self.listen}",
            f"--port={self.port}",
            f"--port-file={self.port_file}",
            f"--data-dir={self.directory}/data",
            "--bucket-name=default",
            f"--users={self.credentials.users}",
            *([f"--replicate-login={self.credentials.users}"] if self.follows else []),
            *self.settings(),
        ]
        return pinned(command, self.cpus)

    def settings(self) -> list[str]:
        """The flags that say what the engine is like, not where."""
        return [
            f"--bucket-type={self.bucket}",
            f"--quota-mb={self.quota_mb}",
            f"--vbuckets={self.vbuckets}",
            f"--threads={self.threads}",
            f"--shards={self.shards}",
            *(f"--param={key}={value}" for key, value in self.params.items()),
        ]


@dataclass
class Engine:
    """A running engine. Not shared between threads."""

    host: Transport
    setup: EngineSetup
    handle: ProcessHandle
    recorder: ArmRecorder
    port: int = 0
    _stopped: bool = field(default=False, init=False)

    @classmethod
    def start(
        cls, host: Transport, setup: EngineSetup, recorder: ArmRecorder, run_id: str
    ) -> Engine:
        """Returns at once; call `wait_ready`. Call it shielded: a process that nobody holds is only swept later."""
        host.makedirs(f"{setup.directory}/data")
        argv = setup.argv()
        recorder.start(host.name, setup.name, argv, setup.env)
        handle = host.start(
            argv,
            name=recorder.job(setup.name),
            log_stdout=f"{setup.directory}/{setup.name}.out",
            log_stderr=setup.log,
            env=setup.env,
            cwd=setup.directory,
            run_id=run_id,
        )
        return cls(host, setup, handle, recorder)

    def wait_ready(self, deadline: float) -> None:
        """Until the port file is there. TrialError when the engine ends first or `deadline` (monotonic) passes."""
        began = time.monotonic()
        while True:
            self.check_alive("while it started")
            if self.host.exists(self.setup.port_file):
                text = self.host.read_text(self.setup.port_file).strip()
                if text.isdigit():
                    self.port = int(text)
                    break
            if time.monotonic() > deadline:
                raise TrialError(
                    f"the engine on {self.host.name} was not ready within {max(deadline - began, 0.0):.3g} s"
                    f"{self._last_words()}"
                )
            time.sleep(READY_POLL_S)
        self.recorder.engine_ready(
            self.host.name, self.setup.name, port=self.port, pid=self.handle.pid
        )

    def check_alive(self, when: str) -> None:
        status = self.handle.poll()
        if status is not None:
            raise TrialError(
                f"the engine on {self.host.name} died {when} ({status}){self._last_words()}"
            )

    def clear_port(self) -> None:
        """Of a stopped engine, before another one starts in its place: `wait_ready` waits for the new one's."""
        argv = ["rm", "-f", "--", self.setup.port_file]
        self.recorder.run(self.host.name, argv)
        self.host.run(argv)

    def stop(self, deadline: float) -> None:
        """A clean stop, for which it has until `deadline` (of time.monotonic), and STOP_GRACE_S in any case.

        TrialError when it had died, had to be killed, or ended with another status than 0.
        """
        if self._stopped:
            return
        died = self.handle.poll()
        self.recorder.stop(self.host.name, self.setup.name)
        grace_s = max(STOP_GRACE_S, deadline - time.monotonic())
        result = self.handle.stop(grace_s)
        self._stopped = True
        if died is not None:
            raise TrialError(
                f"the engine on {self.host.name} died before it was stopped ({died}){self._last_words()}"
            )
        if result.killed:
            raise TrialError(
                f"the engine on {self.host.name} did not stop within {grace_s:.0f} s and was killed",
                hint="limits.trial_timeout sets how long a trial may take, its end included",
            )
        if not result.status.ok:
            raise TrialError(
                f"the engine on {self.host.name} did not stop cleanly ({result.status})"
                f"{self._last_words()}"
            )

    def kill(self) -> None:
        """By SIGKILL, as a host that is gone: nothing more is written. TrialError when it has ended before."""
        self.check_alive("before it was to be killed")
        self.recorder.kill(self.host.name, self.setup.name)
        self.handle.signal(signal.SIGKILL)
        self.handle.wait(KILL_TIMEOUT_S)
        self._stopped = True
        self.handle.stop(0.0)  # it has ended: this takes it out of the host's ledger

    def abandon(self, grace_s: float) -> None:
        """Stop it because the trial failed or the run was interrupted: what is queued does not matter."""
        if not self._stopped:
            self.handle.stop(grace_s)
            self._stopped = True

    # -- kvctl, on the engine's own host

    def kvctl(
        self,
        arguments: Sequence[str],
        *,
        timeout: float = 60.0,
        output: str | None = None,
        cpus: str = "",
    ) -> Completed:
        argv = pinned(self.kvctl_argv(arguments), cpus)
        self.recorder.run(self.host.name, argv, output=output)
        completed = self.host.run(argv, timeout=timeout, check=False)
        if completed.exit:
            self.check_alive(f"during kvctl {arguments[0]}")
            said = completed.stderr.strip() or completed.stdout.strip()
            raise TrialError(
                f"kvctl {arguments[0]} ended with status {completed.exit}: {said[-500:]}"
            )
        return completed

    def kvctl_argv(self, arguments: Sequence[str]) -> list[str]:
        return [
            f"{self.setup.tools}/bin/kvctl",
            f"--host={local_address(self.setup.listen)}",
            f"--port={self.port}",
            f"--user={USER}",
            f"--password-file={self.setup.credentials.password}",
            *arguments,
        ]

    def stat(self, *groups: str) -> dict[str, dict[str, str]]:
        text = self.kvctl(["stat", *groups], output=f"{self.setup.name}-stat.json").stdout
        try:
            document = json.loads(text)
            return {str(g): {str(k): str(v) for k, v in d.items()} for g, d in document.items()}
        except (ValueError, AttributeError) as error:
            raise TrialError(f"kvctl stat printed no groups ({error}): {text[:200]}") from None

    def counters(self) -> dict[str, float]:
        """The numeric figures of the default group (the one with the empty name)."""
        groups = self.stat()
        return numbers(groups.get("", {}))

    def _last_words(self) -> str:
        words = last_words(self.host, self.setup.log)
        return f": {words}" if words else ""


def local_address(listen: str) -> str:
    """Where the engine's own host reaches it: a wildcard address is reached by loopback."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)

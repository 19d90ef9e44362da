"""The servers of a trial: processes that are started, watched, queried, sampled and stopped. The engine is one.

Other servers are in command_server.py. The code that starts a server must always call `stop` or `abandon`. The engine
writes its port to a file when it is ready to serve; until then it is checked for an early death. It is asked through
kvctl.
"""

from __future__ import annotations

import json
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.placement import (
    USER,
    CredentialFiles,
    bracketed,
    local_address,
    log_tail,
    pinned,
)
from perfrunner.experiment.trial.reproduce import ScriptRecorder
from perfrunner.hosts.process import Completed, ExitStatus, ProcessHandle, StopResult
from perfrunner.hosts.transport import Transport
from perfrunner.measure.memory import numbers

STOP_GRACE_S = 60.0  # minimum: a clean stop persists all queued documents, perhaps millions
ORPHAN_GRACE_S, ORPHAN_POLL_S = 5.0, 0.05
KILL_TIMEOUT_S = 30.0  # the kernel needs time to free a large process


@dataclass(frozen=True, kw_only=True)
class ServerSetup:
    """The place of a server and the address for its clients."""

    name: str  # name of the process and its log: "engine", or "engine-<host>" if there are several
    tools: str  # the artifact that provides kvctl
    directory: str  # the trial's directory on the host
    credentials: CredentialFiles
    listen: str  # the address it binds
    address: str  # where clients reach it
    port: int  # 0: any
    env: Mapping[str, str]
    cpus: str = ""  # CPUs of its threads; empty: any

    @property
    def log(self) -> str:
        return f"{self.directory}/{self.name}.log"


class ServerError(TrialError):
    """An error that one server of a trial caused (`server`)."""

    def __init__(self, server: ServerProcess, message: str) -> None:
        super().__init__(message)
        self.server = server


@dataclass
class ServerProcess(ABC):
    """A running server. Not shared between threads."""

    host: Transport
    setup: ServerSetup
    handle: ProcessHandle
    recorder: ScriptRecorder
    port: int = 0
    oom_kills: int | None = None  # count of the host before the start
    _stopped: bool = field(default=False, init=False)

    HAS_FIGURES: ClassVar[bool] = True  # whether it must tell its memory figures
    MUST_STOP: ClassVar[str | None] = None  # what to do if it does not stop cleanly
    TOO_LARGE: ClassVar[str] = "reduce items or limits.group_size, or add memory"

    @property
    def title(self) -> str:
        """Return how messages call it."""
        return f"the engine on {self.host.name}"

    # -- what a server does in its own way

    @abstractmethod
    def wait_ready(self, deadline: float) -> None:
        """Wait until it serves. Raises TrialError if it ends or `deadline` (monotonic) passes."""

    @abstractmethod
    def wait_quiet(self, timeout: float) -> None:
        """Wait until what was written needs no more background work; raises TrialError after `timeout`."""

    @abstractmethod
    def reset_stats(self) -> None: ...

    @abstractmethod
    def counters(self) -> dict[str, float]:
        """Return the counts of operations, as `cmd_get` and `cmd_set`, as far as it has them."""

    @abstractmethod
    def statistics(self) -> dict[str, dict[str, str]]:
        """Return all that it says of itself, by group."""

    @abstractmethod
    def sampler(self, arguments: Sequence[str]) -> list[str]:
        """Return the command that samples the process; `arguments` are options of `kvctl sample`."""

    def connection(self) -> list[str]:
        """Return a load tool's flags for the address."""
        return [f"--host={self.setup.address}", f"--port={self.port}"]

    @abstractmethod
    def session(self, credentials: CredentialFiles) -> list[str]:
        """Return a load tool's flags for protocol and login; `credentials` are on the client's host."""

    @abstractmethod
    def group_session(self) -> list[str]:
        """Return the flags of `session` that a group's load tool takes next to the fields of its variants."""

    @abstractmethod
    def variant_fields(self, credentials: CredentialFiles) -> list[str]:
        """Return address and login as fields of a load tool's --variant flag."""

    # -- the same for all

    def check_alive(self, when: str) -> None:
        status = self.handle.poll()
        if status is not None:
            raise self._died(when, status)

    def stop(self, deadline: float) -> None:
        """Stop it cleanly, within the time until `deadline` (monotonic) but at least STOP_GRACE_S.

        Raises TrialError if it had died, had to be killed, or did not end cleanly.
        """
        if self._stopped:
            return
        died = self.handle.poll()
        self.recorder.stop(self.host.name, self.setup.name)
        grace_s = max(STOP_GRACE_S, deadline - time.monotonic())
        result = self._end(grace_s)
        if died is not None:
            raise self._died("before it was stopped", died)
        if result.killed:
            raise TrialError(
                f"{self.title} did not stop within {grace_s:.0f} s and was killed",
                hint="it must end after SIGTERM; limits.trial_timeout limits the duration of a trial with the stop",
            )
        if not self._ended_cleanly(result.status):
            raise TrialError(
                f"{self.title} did not stop cleanly ({result.status}){self._log_tail()}",
                self.MUST_STOP,
            )

    def kill(self) -> None:
        """Kill it with SIGKILL, to simulate a lost host. Raises TrialError if it has already ended."""
        self.check_alive("before it was to be killed")
        self.recorder.kill(self.host.name, self.setup.name)
        self.handle.signal(signal.SIGKILL)
        self.handle.wait(KILL_TIMEOUT_S)
        self._stopped = True
        self.handle.stop(0.0)  # removes the ended process from the host's process registry

    def abandon(self, grace_s: float) -> None:
        """Stop it after a failure or interruption, without waiting for queued writes."""
        if not self._stopped:
            self._end(grace_s)

    def _end(self, grace_s: float) -> StopResult:
        """Stop its process, and what left its process group: a server that became a daemon."""
        result = left = self.handle.stop(grace_s)
        self._stopped = True
        for option in ("-TERM", "-KILL"):
            deadline = time.monotonic() + ORPHAN_GRACE_S
            if left.orphans:
                self.host.run(["kill", option, *map(str, left.orphans)], check=False)
            while left.orphans and time.monotonic() < deadline:
                time.sleep(ORPHAN_POLL_S)
                left = self.handle.stop(0.0)
        return result

    def run(
        self,
        argv: Sequence[str],
        what: str,
        *,
        timeout: float,
        output: str | None = None,
        cpus: str = "",
    ) -> Completed:
        """Run a program that asks the server, on the server's host. Raises TrialError if it fails."""
        argv = pinned(argv, cpus)
        self.recorder.run(self.host.name, argv, output=output)
        completed = self.host.run(argv, timeout=timeout, check=False)
        if completed.exit:
            self.check_alive(f"during {what}")
            output_text = completed.stderr.strip() or error_text(completed.stdout.strip())
            raise ServerError(
                self,
                f"{what} ended with status {completed.exit}: {output_text[-500:]}",
            )
        return completed

    def _ended_cleanly(self, status: ExitStatus) -> bool:
        return status.ok

    def _died(self, when: str, status: ExitStatus) -> TrialError:
        """Return an error that says why it died; detects the OOM killer from the host's counter."""
        text = f"{self.title} died {when} ({status}"
        if status.signal == signal.SIGKILL or (status.code is None and status.signal is None):
            now = count_oom_kills(self.host)
            if now is not None and self.oom_kills is not None and now > self.oom_kills:
                return TrialError(
                    f"{text}, killed by the kernel's OOM killer: the memory of the host or of its cgroup is exhausted)"
                    f"{self._log_tail()}",
                    f"{self.TOO_LARGE} (perfrunner doctor shows the limit)",
                )
        return TrialError(f"{text}){self._log_tail()}")

    def _log_tail(self) -> str:
        tail = log_tail(self.host, self.setup.log)
        return f": {tail}" if tail else ""


def error_text(output: str) -> str:
    """Return the error in the output of a program that queries servers; the output if it has none."""
    try:
        return str(json.loads(output)["error"])
    except (ValueError, TypeError, KeyError):
        return output


def count_oom_kills(host: Transport) -> int | None:
    """Return how many processes the host's OOM killer has ended since it started; None if unknown.

    The count includes kills in cgroups of both versions (Linux 4.13 and newer).
    """
    done = host.run(["grep", "-E", "^oom_kill [0-9]+$", "/proc/vmstat"], check=False)
    fields = done.stdout.split()
    return int(fields[1]) if done.exit == 0 and len(fields) == 2 else None


READY_POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class EngineSetup(ServerSetup):
    """The parameters of an engine's command line."""

    artifact: str
    bucket: str
    quota_mb: int
    vbuckets: int
    threads: int
    shards: int
    params: Mapping[str, str]
    follows: bool = False  # whether it replicates from other nodes

    @property
    def port_file(self) -> str:
        return f"{self.directory}/{self.name}.port"

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
        """Return the flags of the engine's settings, without its location."""
        return [
            f"--bucket-type={self.bucket}",
            f"--quota-mb={self.quota_mb}",
            f"--vbuckets={self.vbuckets}",
            f"--threads={self.threads}",
            f"--shards={self.shards}",
            *(f"--param={key}={value}" for key, value in self.params.items()),
        ]


@dataclass
class Engine(ServerProcess):
    """A running engine. It is asked through kvctl."""

    setup: EngineSetup

    TOO_LARGE = "reduce items, engine.quota_mb or limits.group_size, or add memory"

    @classmethod
    def start(
        cls, host: Transport, setup: EngineSetup, recorder: ScriptRecorder, run_id: str
    ) -> Engine:
        """Start an engine without waiting; call `wait_ready` next.

        Call it inside a signal shield: a process started without an owner is only cleaned up by the next run.
        """
        host.makedirs(f"{setup.directory}/data")
        argv = setup.argv()
        oom_kills = count_oom_kills(host)
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
        return cls(host, setup, handle, recorder, oom_kills=oom_kills)

    def wait_ready(self, deadline: float) -> None:
        """Wait for the port file. Raises TrialError if the engine ends or `deadline` (monotonic) passes."""
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
                    f"{self._log_tail()}"
                )
            time.sleep(READY_POLL_S)
        self.recorder.engine_ready(
            self.host.name, self.setup.name, port=self.port, pid=self.handle.pid
        )

    def clear_port(self) -> None:
        """Remove the port file of a stopped engine before it is restarted, because `wait_ready` waits for a new one."""
        argv = ["rm", "-f", "--", self.setup.port_file]
        self.recorder.run(self.host.name, argv)
        self.host.run(argv)

    def wait_quiet(self, timeout: float) -> None:
        self.kvctl(["wait-persisted", f"--timeout={timeout:.0f}"], timeout=timeout + 5.0)

    def reset_stats(self) -> None:
        self.kvctl(["reset"])

    def statistics(self) -> dict[str, dict[str, str]]:
        return {**self.stat(), **self.stat("memory", "timings")}

    def sampler(self, arguments: Sequence[str]) -> list[str]:
        return self.kvctl_argv(["sample", f"--pid={self.handle.pid}", *arguments])

    def session(self, credentials: CredentialFiles) -> list[str]:
        return [f"--user={USER}", f"--password-file={credentials.password}", "--bucket=default"]

    def group_session(self) -> list[str]:
        # The fields of a variant hold user and password: other servers may have none.
        return ["--bucket=default"]

    def variant_fields(self, credentials: CredentialFiles) -> list[str]:
        return [
            f"host={bracketed(self.setup.address)}",
            f"port={self.port}",
            f"user={USER}",
            f"password-file={credentials.password}",
        ]

    # -- kvctl, on the engine's own host

    def kvctl(
        self, arguments: Sequence[str], *, timeout: float = 60.0, output: str | None = None
    ) -> Completed:
        argv = self.kvctl_argv(arguments)
        return self.run(argv, f"kvctl {arguments[0]}", timeout=timeout, output=output)

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
        """Return the numeric figures of the default STAT group, which has an empty name."""
        groups = self.stat()
        return numbers(groups.get("", {}))

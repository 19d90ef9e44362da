"""Start and query (through kvctl) one engine process of a trial.

The engine writes its port to a file when it is ready to serve; until then it is checked for an early death.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.placement import USER, CredentialFiles, local_address, pinned
from perfrunner.experiment.trial.reproduce import ScriptRecorder
from perfrunner.experiment.trial.server import ServerProcess, ServerSetup, count_oom_kills
from perfrunner.experiment.trial.vbucket_map import bracketed
from perfrunner.hosts.process import Completed
from perfrunner.hosts.transport import Transport
from perfrunner.measure.memory import numbers

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

    def group_session(self, credentials: CredentialFiles) -> list[str]:
        # The fields of a variant hold user and password: other servers may have none.
        del credentials
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

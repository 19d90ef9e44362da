"""Start, ask and stop a server that is not the engine: the command of a variant, with what its adapter knows.

The server is asked by a small program that is copied to its host (perfrunner.servers.agent), so that reproduce.sh asks
it as the trial did.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from perfrunner.children import python_archive
from perfrunner.errors import SettingsCheckError, TrialError
from perfrunner.experiment.trial.placement import CredentialFiles, bracketed, local_address, pinned
from perfrunner.experiment.trial.reproduce import ScriptRecorder
from perfrunner.experiment.trial.server import (
    ServerError,
    ServerProcess,
    ServerSetup,
    count_oom_kills,
)
from perfrunner.hosts.container import Container, Image, container_name, run_words
from perfrunner.hosts.process import Completed, ExitStatus, ProcessHandle
from perfrunner.hosts.transport import Transport
from perfrunner.measure.memory import numbers
from perfrunner.servers.adapter import HAS_NO_PASSWORD, REFUSES_PASSWORD
from perfrunner.servers.preload import check_first, check_maps
from perfrunner.servers.registry import ADAPTERS
from perfrunner.spec.server import DIRECTORY, PORT

_MAIN = """\
import sys
from perfrunner.servers.agent import main
sys.exit(main())
"""
AGENT = "agent.pyz"  # in the directory of a trial
CONTAINER = "container"
ASK_TIMEOUT_S = 60.0
QUIET_POLL_S = 0.2


@cache
def agent_program() -> bytes:
    """Return the program that asks a server, as one file for Python."""
    adapters = {type(adapter).__module__.rpartition(".")[2] for adapter in ADAPTERS.values()}
    names = sorted({"agent", "registry", "wire", *adapters})
    return python_archive(_MAIN, [f"servers/{name}.py" for name in names])


def free_ports(host: Transport, python: str, directory: str, count: int) -> list[int]:
    """Return ports of a host that no process uses. `directory` is one of this run there."""
    agent = f"{directory}/{AGENT}"
    host.put_bytes(agent_program(), agent)
    done = host.run([python, agent, "free-ports", f"--count={count}"], timeout=ASK_TIMEOUT_S)
    ports: list[int] = json.loads(done.stdout)["ports"]
    return ports


@dataclass(frozen=True)
class ServerCommand:
    """The command, kind and protocol of a checked server."""

    program: str
    arguments: tuple[str, ...]  # with {port} and {dir}
    kind: str
    protocol: str
    library: str | None = None  # of a preloaded allocator
    password: str | None = None  # the name of the file with the password, on every host
    tolerated: frozenset[str] = frozenset()  # limits of the spec that allow some
    image: Image | None = None  # that it runs in
    # Its files as they were when its settings were checked (agent.file_versions); empty: not known yet.
    files: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CommandSetup(ServerSetup):
    """The parameters of a command. `port` is a free one."""

    command: ServerCommand
    python: str  # for the program that asks it

    @property
    def agent(self) -> str:
        return f"{self.directory}/{AGENT}"

    @property
    def own_address(self) -> str:
        """Return where its own host reaches it: loopback, unless the command names an address."""
        listens = {self.listen, f"[{self.listen}]"} & {*self.command.arguments}
        return local_address(self.listen) if listens else self.address

    @property
    def password_flags(self) -> list[str]:
        """Return the flag of the programs that run on the server's host."""
        name = self.command.password
        return [] if name is None else [f"--password-file={self.credentials.of_server(name)}"]

    @property
    def pid_file(self) -> str:
        """Return the file in which podman writes the pid of a container's process."""
        return f"{self.directory}/{self.name}.{CONTAINER}.pid"

    def argv(self) -> list[str]:
        values = {PORT: str(self.port), DIRECTORY: self.directory}
        words = [self.command.program, *self.command.arguments]
        for name, value in values.items():
            words = [word.replace(name, value) for word in words]
        if self.command.image is not None:
            name = container_name(self.directory)
            words = run_words(name, self.command.image, self.pid_file, self.env, words)
        return pinned(words, self.cpus)


@dataclass
class CommandServer(ServerProcess):
    """A running server of any kind. `kind`, `state` and a `protocol` that was guessed are known after `wait_ready`.

    So is `listener`, the process that serves, unless its descriptors cannot be read.
    """

    setup: CommandSetup
    kind: str = field(default="", init=False)
    protocol: str = field(default="", init=False)
    state: Mapping[str, Any] = field(default_factory=dict, init=False)
    files: Mapping[str, Sequence[int]] = field(default_factory=dict, init=False)
    listener: int | None = field(default=None, init=False)

    HAS_FIGURES = False
    MUST_STOP = (
        "after SIGTERM it must end with status 0 or 143, or by the signal; write a spec with `server.kind: other` for"
        " one that always ends in another way"
    )

    @property
    def title(self) -> str:
        return f"{self.setup.command.program.rpartition('/')[2]} on {self.host.name}"

    @classmethod
    def start(
        cls, host: Transport, setup: CommandSetup, recorder: ScriptRecorder, run_id: str
    ) -> CommandServer:
        """Start a server without waiting; call `wait_ready` next, inside a signal shield as an engine."""
        host.makedirs(setup.directory)
        host.put_bytes(agent_program(), setup.agent)
        recorder.write_bytes(host.name, setup.agent, agent_program())
        argv = setup.argv()
        oom_kills = count_oom_kills(host)
        contained = setup.command.image is not None
        env = {} if contained else setup.env  # podman passes it on
        recorder.start(host.name, setup.name, argv, env)
        handle: ProcessHandle = host.start(
            argv,
            name=recorder.job(setup.name),
            log_stdout=setup.log,
            log_stderr=setup.log,
            env=env,
            cwd=setup.directory,
            run_id=run_id,
        )
        if contained:
            handle = Container(host, handle, argv, setup.pid_file)
        server = cls(host, setup, handle, recorder, port=setup.port, oom_kills=oom_kills)
        recorder.server_started(host.name, setup.name, pid=handle.pid)
        return server

    def wait_ready(self, deadline: float) -> None:
        timeout = max(1.0, deadline - time.monotonic())
        command = self.setup.command
        files = [] if command.image else [command.program, command.library]
        asked = [f"--file={file}" for file in files if file is not None]
        asked += [f"--argument={word}" for word in command.arguments if not command.image]
        argv = self._agent(
            ["wait-ready", f"--pid={self.handle.pid}", f"--timeout={timeout:.1f}", *asked]
        )
        self.recorder.run(self.host.name, argv)
        answer = self._document(self.host.run(argv, timeout=timeout + ASK_TIMEOUT_S, check=False))
        if not answer.get("alive"):
            raise self._gone(answered=bool(answer.get("ready")))
        if "unfit" in answer:
            raise TrialError(f"{self.title} cannot be measured: {answer['unfit']}")
        if not answer.get("ready"):
            raise self._not_ready(str(answer.get("error")), timeout)
        self.kind, self.state = str(answer["kind"]), answer["state"]
        self.protocol = str(answer["protocol"])
        if not isinstance(self.handle, Container):
            self.listener = answer.get("listener")
            self._refuse_wrapper()
            self.files = answer["files"]
            self._refuse_change()
        else:
            self.handle.find_process(self.setup.cpus)
            name = f"{self.setup.name}.{CONTAINER}"
            self.recorder.process_known(self.host.name, self.setup.name, name, self.handle.pid)
            argv = self._agent(["wait-ready", f"--pid={self.handle.pid}", "--timeout=5"])
            done = self.host.run(argv, timeout=ASK_TIMEOUT_S, check=False)
            self.listener = self._document(done).get("listener")
            self._refuse_wrapper()
        if command.library is not None:
            maps = self.host.read_text(f"/proc/{self.handle.pid}/maps")
            check_maps(maps, command.library, self.title)
            check_first(answer["preload"], command.library, self.title)

    def wait_quiet(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while (state := self._ask())["busy"]:
            if time.monotonic() > deadline:
                raise TrialError(f"{self.title} is still busy with {state['busy']}")
            time.sleep(QUIET_POLL_S)
        self._check_contents(state)

    def reset_stats(self) -> None:
        """Do nothing: counts are compared with those from before the load."""

    def counters(self) -> dict[str, float]:
        return numbers(self._ask()["counters"])

    def statistics(self) -> dict[str, dict[str, str]]:
        state = self._ask()
        self._check_contents(state)
        raw: dict[str, dict[str, str]] = state["raw"]
        return raw

    def sampler(self, arguments: Sequence[str]) -> list[str]:
        return self._agent(["sample", f"--pid={self.handle.pid}", *arguments])

    def session(self, credentials: CredentialFiles) -> list[str]:
        command = self.setup.command
        flags = [f"--protocol={command.protocol}"]
        if command.password is not None:
            flags.append(f"--password-file={credentials.of_server(command.password)}")
        return flags

    def variant_fields(self, credentials: CredentialFiles) -> list[str]:
        command = self.setup.command
        fields = [f"host={bracketed(self.setup.address)}", f"port={self.port}"]
        if command.password is not None:
            fields.append(f"password-file={credentials.of_server(command.password)}")
        return [*fields, f"protocol={command.protocol}"]

    def group_session(self) -> list[str]:
        return []  # the fields of a variant hold protocol and password

    # -- internal

    def _agent(self, arguments: Sequence[str]) -> list[str]:
        command, setup = self.setup.command, self.setup
        kind = self.kind or command.kind
        return [
            setup.python,
            setup.agent,
            *arguments,
            f"--host={setup.own_address}",
            f"--port={setup.port}",
            *([f"--kind={kind}"] if kind else []),
            *setup.password_flags,
            *(["--wrong-figures"] if command.library is not None else []),
        ]

    def _ask(self) -> dict[str, Any]:
        argv = self._agent(["state"])
        what = f"asking {self.title} for its state"
        return self._document(self.run(argv, what, timeout=ASK_TIMEOUT_S))

    def _document(self, completed: Completed) -> dict[str, Any]:
        try:
            document = json.loads(completed.stdout)
        except ValueError:
            output = (completed.stderr.strip() or completed.stdout.strip())[-500:]
            raise TrialError(
                f"cannot query {self.title}: {self.setup.python} ended with status {completed.exit}: {output}"
            ) from None
        if not isinstance(document, dict):
            raise TrialError(f"cannot query {self.title}: {completed.stdout[:200]}")
        return document

    def _check_contents(self, state: Mapping[str, Any]) -> None:
        losses = {
            "misses": f"evicted {state['evicted']} items" if state["evicted"] else "",
            "errors": f"refused {state['refused']} SETs" if state["refused"] else "",
        }
        for limit, what in losses.items():
            if what and limit not in self.setup.command.tolerated:
                raise ServerError(
                    self,
                    f"{self.title} {what}: its memory limit is too small for the items: raise it (memcached -m MiB,"
                    f" redis --maxmemory), reduce items, or allow it with limits.{limit}",
                )

    def _refuse_wrapper(self) -> None:
        """Raise TrialError if another process than the one that was started serves: its figures would be missing."""
        listener = self.listener
        if listener in (None, self.handle.pid):
            return
        name = self.host.run(["cat", f"/proc/{listener}/comm"], check=False).stdout.strip()
        raise TrialError(
            f"{self.title} started another process ({name or 'process'} {listener}), which serves on the port: memory"
            " and CPU time would be those of the process that only waits for it",
            "start the server itself, without sudo, time, timeout or docker, and as one process; a script must end"
            " with `exec`, and a container is measured with `server.image`",
        )

    def _refuse_change(self) -> None:
        """Raise SettingsCheckError if a file is another one than at the settings check: trials would not be alike."""
        for name, before in self.setup.command.files.items():
            if self.files.get(name, before) != before:
                raise SettingsCheckError(
                    f"{self.title}: {name} has changed since the run began",
                    "start a new run; give a copy of a program or file that may change during a run, and name"
                    " files that the server writes with {dir}",
                )

    def _gone(self, *, answered: bool) -> TrialError:
        """Return the error of a process that ended; end what it left behind, if it became a daemon."""
        status = self.handle.poll()
        ended = self._end(0.0)
        if answered or ended.orphans:
            return TrialError(
                f"{self.title} went into the background: the process that was started ended, but its port answers"
                if answered
                else f"{self.title} went into the background: the process that was started ended",
                "start it in the foreground (memcached without -d, redis with --daemonize no;"
                " a wrapper script with exec)",
            )
        return TrialError(
            f"{self.title} ended while it started ({status or ended.status})"
            f"{self._log_tail() or ': it printed nothing'}",
            "run the command by hand, in an empty directory",
        )

    def _not_ready(self, trouble: str, timeout: float) -> TrialError:
        if any(f"it answers: {code}" in trouble for code in REFUSES_PASSWORD):
            if any(code in trouble for code in HAS_NO_PASSWORD):
                return TrialError(
                    f"{self.title} has no password: {trouble}",
                    "leave server.password_env (ab: --password-env) out, or start the server with that password",
                )
            return TrialError(
                f"{self.title} refuses the load: {trouble}",
                "set server.password_env (ab: --password-env) to a variable with the password of its default user",
            )
        if "max number of clients" in trouble:
            return TrialError(
                f"{self.title} refuses the load: {trouble}",
                "raise its limit of clients (redis --maxclients, memcached -c)",
            )
        if trouble.startswith("it answers"):
            kind = self.kind or self.setup.command.kind or "memcached or redis"
            return TrialError(
                f"{self.title} does not speak the protocol of {kind}: {trouble}",
                "set the variant's server.kind (ab: --protocol)",
            )
        address = self.setup.own_address
        return TrialError(
            f"{self.title} was not ready within {timeout:.3g} s: {trouble}{self._log_tail()}",
            f"the command must serve on {address}, on the port that stands for {PORT}",
        )

    def _ended_cleanly(self, status: ExitStatus) -> bool:
        kind = self.kind or self.setup.command.kind
        return ADAPTERS[kind or "other"].clean_stop(status.code, status.signal)

"""Run a server in a container of a host, with podman.

podman stays in the foreground, below a process of the registry (programs/contain.sh): it passes TERM on and prints what
the container prints. The process that is measured is the one in the container, whose pid on the host podman writes to a
file. A container may survive when the process of the registry is killed. It is removed before the registry forgets
the process: a perfrunner that is killed in between leaves an entry by which the next sweep removes it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfrunner.errors import UsageError
from perfrunner.hosts import scripts
from perfrunner.hosts.process import (
    CommandFailed,
    CommandTimeout,
    ExitStatus,
    ProcessHandle,
    StopResult,
)
from perfrunner.hosts.transport import Transport

PODMAN = "podman"
# Where podman finds images and its settings; processes of a host do not inherit them.
_VARIABLES = (
    "HOME", "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF",
)  # fmt: skip
_MARK = "perfrunner-container"  # the name under which contain.sh runs
_INSPECT_S, _REMOVE_S, _REMOVE_POLL_S = 60.0, 60.0, 0.1
_NO_PROGRAM = 127  # the status of `env`


@dataclass(frozen=True)
class Image:
    """The content of an image on a host: `id` is of its layers and configuration, `digest` that of its manifest.

    `podman` is the command that has it, with the variables that say where.
    """

    id: str
    digest: str
    podman: tuple[str, ...]


def find_image(name: str, host: Transport) -> Image:
    """Return what a name stands for on a host now; nothing is pulled. Raises UsageError or HostError."""
    podman = (
        "env",
        *(f"{key}={value}" for key, value in host.variables(_VARIABLES).items()),
        PODMAN,
    )
    form = "{{.Id}} {{.Digest}}"
    argv = [*podman, "image", "inspect", "--format", form, name]
    done = host.run(argv, timeout=_INSPECT_S, check=False)
    at = f"on {host.name}"
    if done.exit == _NO_PROGRAM:
        raise UsageError(f"there is no {PODMAN} {at}", f"{at}: apt-get install {PODMAN}")
    if "image not known" in done.stderr:
        raise UsageError(f"podman {at} has no image {name}", f"{at}: podman pull {name}")
    words = done.stdout.split()
    if done.exit or not words:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"podman {at} cannot read the image {name}: {reason}")
    return Image(words[0], words[1] if len(words) > 1 else "", podman)


def container_name(directory: str) -> str:
    """Return the name of the container of a trial's directory, of which no other container is started."""
    return f"perfrunner-{hashlib.sha256(directory.encode()).hexdigest()[:16]}"


def run_words(
    name: str, image: Image, pid_file: str, env: Mapping[str, str], command: Sequence[str]
) -> list[str]:
    """Return the command that runs another in a container until it ends, in the network of the host.

    It is the container's first process, whose pid is measured, even if podman's settings ask for an init before it.
    """
    program, *arguments = command
    return [
        "sh", "-c", scripts.CONTAIN, _MARK, *image.podman, "run", "--rm", "--replace", f"--name={name}",
        f"--pidfile={pid_file}", "--init=false", "--pull=never", "--network=host", "--log-driver=none",
        *(f"--env={key}={value}" for key, value in env.items()),
        f"--entrypoint={json.dumps([program])}", image.id, *arguments,
    ]  # fmt: skip


def remove(host: Transport, argv: Sequence[str]) -> None:
    """Remove the container of a command of `run_words`, if it is still there. Does nothing for any other command.

    podman removes it as well when it has ended (--rm). A removal that meets another one fails, so it is tried again.
    """
    if _MARK not in argv:
        return
    words = list(argv[argv.index(_MARK) + 1 :])
    run = words.index("run")
    name = next(word for word in words[run:] if word.startswith("--name=")).partition("=")[2]
    argv = [*words[:run], "rm", "--force", "--ignore", "--time=0", name]
    deadline = time.monotonic() + _REMOVE_S
    while (done := host.run(argv, timeout=_REMOVE_S, check=False)).exit != 0:
        if time.monotonic() > deadline:
            raise CommandFailed(host.name, done)
        time.sleep(_REMOVE_POLL_S)


class Container:
    """A ProcessHandle of a container: the registry's, and once it is known the pid of the process in the container."""

    def __init__(
        self, host: Transport, podman: ProcessHandle, argv: Sequence[str], pid_file: str
    ) -> None:
        self._host, self._podman, self._argv = host, podman, tuple(argv)
        self._pid_file = pid_file
        self._pid: int | None = None

    def find_process(self, cpus: str) -> None:
        """Read the pid of the process in the running container, and pin its threads as its runtime may not have."""
        self._pid = int(self._host.read_text(self._pid_file))
        if cpus:
            self._host.run(["taskset", "--all-tasks", "--cpu-list", "--pid", cpus, str(self._pid)])

    @property
    def pid(self) -> int:
        return self._podman.pid if self._pid is None else self._pid

    def poll(self) -> ExitStatus | None:
        return self._podman.poll()

    def wait(self, timeout: float) -> ExitStatus:
        return self._podman.wait(timeout)

    def signal(self, signum: int) -> bool:
        return self._podman.signal(signum)

    def stop(self, grace_s: float = 10.0) -> StopResult:
        killed = False
        if self._podman.signal(signal.SIGTERM):
            try:
                self._podman.wait(grace_s)
            except CommandTimeout:
                killed = True
        remove(self._host, self._argv)
        result = self._podman.stop(grace_s)
        if killed or result.killed:  # a podman that was still starting may have made it since
            remove(self._host, self._argv)
        return dataclasses.replace(result, killed=killed or result.killed)

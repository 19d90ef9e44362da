"""Control a lab through its keeper; used by tests and `scripts/lab`."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from perfrunner.spec.cluster import ClusterSpec
from tools.lab.hosts import SSHD
from tools.lab.layout import MOST_HOSTS, Layout

ROOT = Path(__file__).resolve().parents[2]
Cable: TypeAlias = Literal["control", "data"]
_ANSWER_S = 60.0
_PATIENCE_S = 300.0  # far more than any machine needs: the limit only ends a hang
_TOOLS = ("ip", "tc", "nsenter", "unshare", "setpriv", "ssh-keygen", SSHD)


class LabError(Exception):
    """An error: the lab cannot be raised, or cannot carry out a command."""


def why_not() -> str | None:
    """Return why this machine cannot hold a lab; None if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "the lab needs root on Linux (network namespaces)"
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"the lab needs {', '.join(missing)} (Debian: iproute2, util-linux, openssh-server)"
    tried = subprocess.run(
        ["unshare", "--net", "--pid", "--mount", "--uts", "--ipc", "--fork", "--mount-proc",
         "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if tried.returncode:
        return f"no namespaces or no veth here: {tried.stderr.strip()}"
    return None


@dataclass(frozen=True)
class Lab:
    """A running lab."""

    layout: Layout

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Send a command to the keeper and return its answer. Raises LabError if it refuses or does not run."""
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(_ANSWER_S)
                sock.connect(str(self.layout.socket))
                with sock.makefile("rw", encoding="utf-8") as stream:
                    stream.write(json.dumps({"do": verb, **arguments}) + "\n")
                    stream.flush()
                    line = stream.readline()
        except OSError as error:
            raise LabError(
                f"no lab is running ({self.layout.socket}: {error}): scripts/lab up"
            ) from error
        answer = json.loads(line or '{"error": "the keeper died"}')
        if "error" in answer:
            raise LabError(answer["error"])
        return answer["answer"]

    # -- faults

    def cut(self, host: str, cable: Cable | None = None) -> None:
        """Pull a cable of a host (None: both): packets are lost in both directions."""
        self.ask("cut", host=host, cable=cable)

    def heal(self, host: str, cable: Cable | None = None) -> None:
        self.ask("heal", host=host, cable=cable)

    def part(self, a: str, b: str) -> None:
        """Cut the connection of two hosts; all others still reach both."""
        self.ask("part", a=a, b=b)

    def join(self, a: str, b: str) -> None:
        self.ask("join", a=a, b=b)

    def power_off(self, host: str) -> None:
        self.ask("power_off", host=host)

    def crash(self, host: str) -> None:
        """Kill all processes of a host; its kernel closes their connections."""
        self.ask("crash", host=host)

    def boot(self, host: str) -> None:
        """Boot a host after power_off or crash, with another boot id and the same disk."""
        self.ask("boot", host=host)

    def freeze(self, host: str) -> None:
        """Stop sshd and its sessions; the kernel continues to answer."""
        self.ask("freeze", host=host)

    def thaw(self, host: str) -> None:
        self.ask("thaw", host=host)

    def limit(self, host: str, mbit_per_s: float, cable: Cable | None = None) -> None:
        """Limit the rate of cables in each direction. A limit replaces a delay, and a delay replaces a limit."""
        self.ask("limit", host=host, mbit_per_s=mbit_per_s, cable=cable)

    def delay(
        self, host: str, delay_ms: float, *, loss_percent: float = 0.0, cable: Cable | None = None
    ) -> None:
        """Delay frames, and lose a share of them, in each direction of cables."""
        self.ask(
            "delay", host=host, seconds=delay_ms / 1000, loss_percent=loss_percent, cable=cable
        )

    def set_clock(self, host: str, ahead_s: float) -> None:
        """Set the clock of programs that start from now on, until the next boot; a later call steps it for all."""
        self.ask("clock", host=host, seconds=ahead_s)

    def unlimited(self, host: str, cable: Cable | None = None) -> None:
        self.ask("unlimited", host=host, cable=cable)

    # -- looking

    @property
    def hosts(self) -> dict[str, str]:
        """The addresses of the hosts, by name."""
        return {name: host["address"] for name, host in self.ask("status")["hosts"].items()}

    @property
    def data_addresses(self) -> dict[str, str]:
        """The addresses on the network that connects the hosts alone, by name."""
        return {name: host["data_address"] for name, host in self.ask("status")["hosts"].items()}

    def run(self, host: str, *argv: str) -> str:
        """Run a command on the host without its sshd, and return its output."""
        return str(self.ask("run", host=host, argv=list(argv)))

    def processes(self, host: str) -> list[str]:
        """Return the command lines of the host's processes, without sshd."""
        return list(self.ask("processes", host=host))

    def assert_idle(self) -> None:
        """Wait until nothing runs on any host that is on: a lock's holder ends after its connection."""
        until = time.monotonic() + _PATIENCE_S
        names = [name for name, host in self.ask("status")["hosts"].items() if host["on"]]
        while (running := {n: p for n in names if (p := self.processes(n))}) != {}:
            assert time.monotonic() < until, running
            time.sleep(0.05)

    def host_document(self, host: str, **changes: object) -> dict[str, object]:
        """Return the entry of a host in a cluster file."""
        fields: dict[str, object] = {
            "address": self.hosts[host],
            "user": "root",
            "key": str(self.layout.key),
            "known_hosts": str(self.layout.known_hosts),
            "work_dir": str(self.layout.work_dir),
        }
        return {**fields, **changes}

    def cluster_document(
        self,
        engine_nodes: Sequence[str],
        load_clients: Sequence[str],
        *,
        apart: bool = False,
        **changes: object,
    ) -> dict[str, object]:
        """Return a cluster file. `apart`: clients reach nodes over the data network, SSH over the control network."""
        names = dict.fromkeys((*engine_nodes, *load_clients))
        data = self.data_addresses if apart else {}
        hosts = {
            name: self.host_document(name, **({"data_address": data[name]} if apart else {}))
            for name in names
        }
        fields: dict[str, object] = {
            "name": "lab",
            "transport": "ssh",
            "hosts": hosts,
            "engine_nodes": list(engine_nodes),
            "load_clients": list(load_clients),
        }
        return {**fields, **changes}

    def cluster(
        self,
        engine_nodes: Sequence[str],
        load_clients: Sequence[str],
        *,
        apart: bool = False,
        **changes: object,
    ) -> ClusterSpec:
        """Return the validated form of `cluster_document`."""
        return ClusterSpec.model_validate(
            self.cluster_document(engine_nodes, load_clients, apart=apart, **changes)
        )


@contextlib.contextmanager
def raised_lab(count: int, directory: Path) -> Iterator[Lab]:
    """Open a lab that ends with this process at the latest. Raises LabError if it cannot (see `why_not`)."""
    for number in range(1, 256):  # 0 is that of scripts/lab
        if Path(f"/sys/class/net/{Layout(directory, number).cable}").exists():
            continue
        keeper = start_keeper(Layout(directory, number), count, tied=True)
        answer = _first_line(keeper)
        if answer == "up":
            break
        log = _end(keeper, directory)
        if "File exists" not in log:
            raise LabError(f"the lab did not start: {log[-1000:]}")
    else:
        raise LabError("255 labs are running already")
    try:
        yield Lab(Layout(directory, number))
    finally:
        _end(keeper, directory)


def start_keeper(layout: Layout, count: int, *, tied: bool) -> subprocess.Popen[bytes]:
    """Start the keeper, which prints `up` when ready. `tied`: it ends when its standard input does."""
    if not 1 <= count <= MOST_HOSTS:
        raise LabError(f"expected 1 to {MOST_HOSTS} hosts; got {count}")
    layout.directory.mkdir(parents=True, exist_ok=True)
    with layout.log.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "tools.lab.keeper",
             str(layout.directory), str(layout.number), str(count), "tied" if tied else "free"],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
            stdin=subprocess.PIPE if tied else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip


def _first_line(keeper: subprocess.Popen[bytes]) -> str:
    assert keeper.stdout is not None
    return keeper.stdout.readline().decode().strip()


def _end(keeper: subprocess.Popen[bytes], directory: Path) -> str:
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    keeper.stdin.close()
    keeper.stdout.close()
    try:
        keeper.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()
    return Layout(directory, 0).log.read_text(errors="replace")

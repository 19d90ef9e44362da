"""Define the hosts of a lab, their cables, and the switch between them, which the keeper holds.

Every process is a child of the keeper, and the kernel ends it with the keeper (PDEATHSIG). Namespaces have no names, so
no clean-up is needed after a SIGKILL. Commands "on" a host are nsenter into the namespaces of its processes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tools.lab import longcable
from tools.lab.layout import Layout

SSHD = "/usr/sbin/sshd"
_TIED = ["setpriv", "--pdeathsig", "KILL"]
_UP_TIMEOUT_S = 300.0
# $1 own directory, $2 the path where its work appears, $3 host name, $4 address/bits, $5 sshd's configuration,
# $6 its log, $7 sshd, $8 the lab's directory, $9 data address/bits. /var/tmp is the host's own: the machine's lock
# stands for that host. The first line of standard input says that the cables are plugged in.
_FIRST_PROCESS = """
set -e
mount --bind "$1/work" "$2"
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
mkdir -p "$1/var_tmp"
case "$8" in /var/tmp/*) mkdir -p "$1/var_tmp${8#/var/tmp}"; mount --rbind "$8" "$1/var_tmp${8#/var/tmp}" ;; esac
mount --rbind "$1/var_tmp" /var/tmp
hostname "$3"
read -r _
ip link set lo up
ip address add "$4" dev eth0
ip link set eth0 up
ip address add "$9" dev eth1
ip link set eth1 up
exec </dev/null "$7" -D -f "$5" -E "$6"
"""

_ROOT = Path(__file__).parents[2]
_CLOCK_SOURCE = Path(__file__).with_name("clock.c")
_OWN_ETC = """
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /etc
echo "$1" >/etc/ld.so.preload
"""


class Refused(Exception):  # noqa: N818
    """An error: the lab cannot carry out a command; the message says why."""


def run(argv: Sequence[str]) -> str:
    """Run a command and return its output; raise Refused, with its messages, when it fails."""
    done = subprocess.run(
        argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=False
    )
    if done.returncode:
        raise Refused(f"{' '.join(argv)}: {done.stderr.strip() or f'status {done.returncode}'}")
    return done.stdout


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _descendants(pid: int) -> list[int]:
    pids = []
    for child in _children(pid):
        pids += [child, *_descendants(child)]
    return pids


class Switch:
    """Two bridges in a separate network namespace, and the cable from the machine to the first, `CONTROL`.

    The second, `DATA`, connects the hosts alone.
    """

    CONTROL, DATA = "br0", "br1"

    def __init__(self, layout: Layout) -> None:
        self._process = subprocess.Popen(
            [*_TIED, "unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL
        )
        _wait_for(self._apart, "the switch")
        try:
            for bridge in (self.CONTROL, self.DATA):
                self.run(["ip", "link", "add", bridge, "type", "bridge"])
                self.run(["ip", "link", "set", bridge, "up"])
            pid = str(self._process.pid)
            add = ["ip", "link", "add", layout.cable, "type", "veth", "peer", "name", "uplink"]
            run([*add, "netns", pid])
            self.plug("uplink", self.CONTROL)
            run(["ip", "address", "add", f"{layout.controller}/24", "dev", layout.cable])
            run(["ip", "link", "set", layout.cable, "up"])
        except BaseException:
            self.close()
            raise

    def run(self, argv: Sequence[str]) -> str:
        return run(["nsenter", "--target", str(self._process.pid), "--net", *argv])

    def plug(self, port: str, bridge: str) -> None:
        self.run(["ip", "link", "set", port, "master", bridge, "up"])

    def begin(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a program of this checkout on the host; its standard output is a pipe."""
        return subprocess.Popen(
            [*_TIED, "nsenter", "--target", str(self._process.pid), "--net", *argv],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=_ROOT,
        )  # fmt: skip

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _apart(self) -> bool:
        mine, theirs = (
            Path(f"/proc/{pid}/ns/net").readlink() for pid in ("self", self._process.pid)
        )
        return mine != theirs


@dataclass
class Cable:
    """A cable from `port` of the switch, at `bridge`, to `device` of a host."""

    switch: Switch
    bridge: str
    port: str
    device: str
    address: str
    _long: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def mac(self) -> str:
        """The MAC address, the same after each boot: neighbours would otherwise continue to use the old one."""
        return "02:98:" + ":".join(f"{int(part):02x}" for part in self.address.split("."))

    def plug_in(self, pid: int) -> bool:
        """Plug the cable into the namespace of `pid`. Return False if the cable of an earlier boot still exists."""
        peer = ["peer", "name", self.device, "address", self.mac, "netns", str(pid)]
        try:
            self.switch.run(["ip", "link", "add", self.port, "type", "veth", *peer])
        except Refused as error:
            if "File exists" in str(error):
                return False
            raise
        self.switch.plug(self.port, self.bridge)
        return True

    def unplug(self) -> None:
        with contextlib.suppress(Refused):  # it may be gone
            self.switch.run(["ip", "link", "delete", self.port])

    def link(self, *, up: bool) -> None:
        self.switch.run(["ip", "link", "set", self.port, "up" if up else "down"])

    def lengthen(self, delay_s: float, loss_percent: float) -> None:
        """Delay each frame between the port and the bridge with a program, until `shorten`."""
        near, far = f"n-{self.port}", f"f-{self.port}"
        self.switch.run(["ip", "link", "add", near, "type", "veth", "peer", "name", far])
        self.switch.run(["ip", "link", "set", far, "up"])
        self.switch.run(["ip", "link", "set", self.port, "nomaster"])
        self.switch.plug(near, self.bridge)
        ends = [self.port, far, str(delay_s), str(loss_percent)]
        self._long = self.switch.begin([sys.executable, "-m", longcable.__name__, *ends])
        assert self._long.stdout is not None
        if self._long.stdout.readline() != b"ready\n":
            self.shorten()
            raise Refused(f"the program that delays frames at {self.port} did not start")

    def shorten(self) -> None:
        if self._long is None:
            return
        self._long.kill()
        self._long.wait()
        self._long = None
        self.switch.run(["ip", "link", "delete", f"n-{self.port}"])
        with contextlib.suppress(Refused):  # the host may be off, and its port gone
            self.switch.plug(self.port, self.bridge)


@dataclass
class Host:
    """A host; `boot` switches it on."""

    layout: Layout
    switch: Switch
    name: str
    number: int
    cables: dict[str, Cable] = field(init=False)  # by what they are for: control, data
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _has_clock: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        address, data = self.layout.address(self.number), self.layout.data_address(self.number)
        self.cables = {
            "control": Cable(self.switch, Switch.CONTROL, f"to-{self.name}", "eth0", address),
            "data": Cable(self.switch, Switch.DATA, f"data-{self.name}", "eth1", data),
        }

    @property
    def address(self) -> str:
        """The address of its sshd."""
        return self.cables["control"].address

    def cables_for(self, purpose: str | None) -> list[Cable]:
        """Return the cables of a purpose (None: all). Raises Refused if the host has none."""
        if purpose is None:
            return list(self.cables.values())
        if purpose not in self.cables:
            raise Refused(f"there is no cable {purpose}; there are {', '.join(self.cables)}")
        return [self.cables[purpose]]

    def install(self) -> None:
        """Create the disk: a host key, sshd's configuration, an empty work directory."""
        directory = self.directory
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "work").mkdir(parents=True)
        make_key(directory / "host_key")
        settings = {
            "ListenAddress": f"{self.address}:22",
            "HostKey": str(directory / "host_key"),
            "PidFile": "none",
            "AuthorizedKeysFile": f"{self.layout.key}.pub",
            "StrictModes": "no",
            "UsePAM": "no",
            "UseDNS": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "ClientAliveInterval": "1",
            "ClientAliveCountMax": "3",
            "SetEnv": "SHLVL=1",  # else bash reads ~/.bashrc for every command
            "Subsystem": "sftp internal-sftp",
        }
        text = "".join(f"{key} {value}\n" for key, value in settings.items())
        (directory / "sshd_config").write_text(text)

    @property
    def directory(self) -> Path:
        return self.layout.host_directory(self.name)

    @property
    def is_on(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def known_hosts_line(self) -> str:
        kind, key = (self.directory / "host_key.pub").read_text().split()[:2]
        return f"{self.address} {kind} {key}\n"

    def boot(self) -> None:
        if self.is_on:
            raise Refused(f"{self.name} is on already")
        self.unlimited(self.cables_for(None))
        self._has_clock = False
        (self.directory / "boot_id").write_text(f"{uuid.uuid4()}\n")
        namespaces = ["--net", "--pid", "--mount", "--uts", "--ipc", "--fork"]
        self._process = subprocess.Popen(
            [
                *_TIED, "unshare", *namespaces, "--kill-child=KILL", "--mount-proc",
                "sh", "-c", _FIRST_PROCESS, "sh",
                str(self.directory), str(self.layout.work_dir), self.name, f"{self.address}/24",
                str(self.directory / "sshd_config"), str(self.directory / "sshd.log"), SSHD,
                str(self.layout.directory), f"{self.cables['data'].address}/24",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=(self.directory / "console.log").open("ab"),
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        _wait_for(lambda: bool(self._init()), f"{self.name}'s first process")
        for purpose, cable in self.cables.items():
            # A cable of before the power went may be on its way out still.
            plug_in = partial(cable.plug_in, self._process.pid)
            _wait_for(plug_in, f"{self.name}'s {purpose} cable")
        self._process.stdin.write(b"\n")
        self._process.stdin.close()
        _wait_for(self._answers, f"{self.name}'s sshd")

    def power_off(self) -> None:
        """Pull the plug: no process ends in order, and no connection is closed."""
        if self._process is None or not self.is_on:
            raise Refused(f"{self.name} is off already")
        for cable in self.cables.values():  # first, so that no FIN or RST leaves the host
            cable.unplug()
        for pid in self._init():
            os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def crash(self) -> None:
        """Kill everything on the host at once; its kernel still closes the connections."""
        for pid in self._init():
            os.kill(pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def limit(self, cables: Sequence[Cable], mbit_per_s: float) -> None:
        """Limit the rate of these interfaces in each direction."""
        self.unlimited(cables)
        shape = ["tbf", "rate", f"{mbit_per_s:g}mbit", "burst", "64kb", "latency", "50ms"]
        for inside, device in self._ends(cables):
            inside(["tc", "qdisc", "add", "dev", device, "root", *shape])

    def delay(self, cables: Sequence[Cable], delay_s: float, loss_percent: float) -> None:
        """Delay frames, and lose a share of them, in each direction of these cables."""
        self.unlimited(cables)
        for cable in cables:
            cable.lengthen(delay_s, loss_percent)

    def unlimited(self, cables: Sequence[Cable]) -> None:
        """Remove delays and limits of these cables."""
        for inside, device in self._ends(cables):
            with contextlib.suppress(Refused):  # there may be none
                inside(["tc", "qdisc", "delete", "dev", device, "root"])
        for cable in cables:
            cable.shorten()

    def _ends(
        self, cables: Sequence[Cable]
    ) -> Iterator[tuple[Callable[[Sequence[str]], str], str]]:
        for cable in cables:
            yield self.switch.run, cable.port
            yield self.run, cable.device

    def step_clock(self, seconds: float) -> None:
        """Set the time of day ahead of this machine's, for programs that started after the first call."""
        clock = self.directory / "clock"
        if not self._has_clock:
            clock.write_bytes(bytes(8))
            library = self.directory / "clock.so"
            run(
                [
                    "cc",
                    "-shared",
                    "-fPIC",
                    "-O2",
                    f'-DOFFSET_FILE="{clock}"',
                    "-o",
                    str(library),
                    str(_CLOCK_SOURCE),
                ]
            )
            # A separate /etc; a tmpfs, since not every file system can be the upper one.
            self.run(["sh", "-ec", _OWN_ETC, "sh", str(library)])
            self._has_clock = True
        with clock.open("r+b") as file:  # in place: it is mapped
            file.write(struct.pack("=q", round(seconds * 1e9)))

    def run(self, argv: Sequence[str]) -> str:
        """Run a command on the host without its sshd, and return its output."""
        init = self._init()
        if not init:
            raise Refused(f"{self.name} is off")
        return run(
            ["nsenter", "--target", str(init[0]), "--net", "--pid", "--mount", "--uts", "--ipc", *argv]
        )  # fmt: skip

    def sshds(self) -> list[int]:
        """Return the pids, on this machine, of the listener and its sessions."""
        init = self._init()
        pids = [*init, *(pid for first in init for pid in _descendants(first))]
        return [pid for pid in pids if _command(pid) == "sshd"]

    def processes(self) -> list[str]:
        """Return the command lines of its processes, without sshd and those that serve this request."""
        init = self._init()
        pids = [pid for first in init for pid in _descendants(first) if _command(pid) != "sshd"]
        lines = []
        for pid in pids:
            with contextlib.suppress(OSError):
                raw = Path(f"/proc/{pid}/cmdline").read_bytes()
                lines.append(raw.replace(b"\0", b" ").decode(errors="replace").strip())
        return [line for line in lines if line]

    def signal_sshds(self, signum: int) -> None:
        for pid in self.sshds():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    def _init(self) -> list[int]:
        return _children(self._process.pid) if self._process is not None else []

    def _answers(self) -> bool:
        if not self.is_on:
            console = (self.directory / "console.log").read_text(errors="replace")
            raise Refused(f"{self.name} did not start: {console.strip()[-500:]}")
        with contextlib.suppress(OSError), socket.create_connection((self.address, 22), timeout=1):
            return True
        return False


def make_key(path: Path) -> None:
    path.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)])


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _UP_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise Refused(f"{what} did not start")
        time.sleep(0.005)

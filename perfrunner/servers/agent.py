"""Ask a server on its own host: is it ready, what are its settings, what does it use.

perfrunner copies this program there with the adapters as one file. It needs a Python and its standard library. Every
command prints one JSON document; a failure is {"error": ...} with exit status 1.

    free-ports   print ports that no process listens on
    wait-ready   wait until the server accepts a connection and answers
    state        print what the server says of itself
    sample       print memory and CPU time of the process, as `kvctl sample` prints them for the engine, or append them
                 to a file each interval until SIGTERM
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import signal
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from stat import S_ISREG
from typing import Any

from perfrunner.servers.adapter import State
from perfrunner.servers.registry import ADAPTERS, guess_kind, guess_protocol
from perfrunner.servers.wire import UnfitError, Wire, WireError, connected, log_in

POLL_S = 0.02
_PRELOADS = b"LD_PRELOAD="
_AUXILIARY, _SECURE = struct.Struct("@LL"), 23  # an entry of /proc/PID/auxv, and its AT_SECURE
RUNS = "the program that it becomes"
SILENT = "nothing listens on its port"
PATIENCE_S = 20.0  # for an answer: a busy host may not schedule a server for seconds
_END = {signal.SIGTERM, signal.SIGINT}
AFTER_EXIT_S = 0.5  # a server that becomes a daemon answers soon after its first process has ended
FORKS_WITHIN_S = 0.5  # of a new connection, if the server forks for each


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status."""
    given = _parser().parse_args(argv)
    if getattr(given, "out", None) is not None:
        # The end of a series is waited for: a signal must not interrupt a line.
        signal.pthread_sigmask(signal.SIG_BLOCK, _END)
    try:
        document = given.run(given)
    except (OSError, WireError) as error:
        document = {"error": f"{error}"}
    if document is not None:
        print(json.dumps(document), flush=True)
    return 1 if document is not None and "error" in document else 0


def ask(given: argparse.Namespace) -> State:
    """Return the state of the server."""
    if given.kind == "other":
        return State()
    with _logged_in(given) as wire:
        return ADAPTERS[given.kind].ask(wire, given.wrong_figures)


def _begin(given: argparse.Namespace) -> str:
    """Do what the server needs before it serves, and return what it still waits for."""
    if given.kind == "other":
        return ""
    with _logged_in(given) as wire:
        return ADAPTERS[given.kind].begin(wire)


@contextlib.contextmanager
def _logged_in(given: argparse.Namespace) -> Iterator[Wire]:
    patience = min(PATIENCE_S, getattr(given, "timeout", PATIENCE_S))
    with connected(given.host, given.port, patience) as wire:
        log_in(wire, _password(given))
        yield wire


def _free_ports(given: argparse.Namespace) -> dict[str, Any]:
    return {"ports": free_ports(given.count)}


def _wait_ready(given: argparse.Namespace) -> dict[str, Any]:
    """Wait for an answer.

    `alive` tells whether the process that was started is still there then, and `listener` which process serves.
    `files` tells whether its program and the files that are asked about are the same as at another start.
    `preload` tells how the loader treated LD_PRELOAD.
    `protocol` is given if the kind was guessed and the server does not speak the default protocol of that kind.
    """
    unknown = given.kind is None
    deadline = time.monotonic() + given.timeout
    gone_at: float | None = None
    trouble = SILENT
    while time.monotonic() < deadline:
        alive = is_alive(given.pid)
        if not alive:
            gone_at = gone_at or time.monotonic()
            if time.monotonic() > gone_at + AFTER_EXIT_S:
                break
        try:
            with connected(given.host, given.port, min(5.0, given.timeout)):
                pass
            kind = given.kind or guess_kind(given.host, given.port)
            given.kind = kind
            state = ask(given)
            trouble = state.busy if state.busy.startswith("loading") else _begin(given)
            if not trouble:
                return {
                    "ready": True,
                    "alive": alive,
                    "kind": kind,
                    "protocol": guess_protocol(kind, given.host, given.port) if unknown else "",
                    "state": asdict(state),
                    "listener": _serving(given),
                    "files": file_versions(given.pid, given.file, given.argument),
                    "preload": read_preload(given.pid),
                }
        except ConnectionRefusedError:
            pass
        except UnfitError as error:
            return {"ready": False, "alive": alive, "unfit": str(error)}
        except WireError as error:
            trouble = f"it answers: {error}"
            if not str(error).startswith(("LOADING", "the server closed")):
                return {"ready": False, "alive": alive, "error": trouble}
        except OSError as error:
            trouble = f"its port does not answer: {error}"
        time.sleep(POLL_S)
    if trouble == SILENT and _inodes(given.port, _LISTENS):
        trouble = f"it listens on its port, but not on {given.host}"
    return {"ready": False, "alive": is_alive(given.pid), "error": trouble}


def _serving(given: argparse.Namespace) -> int | None:
    """Return the process that serves: the one that was started, unless another listens or answers; None if unknown."""
    listening = listener(given.pid, given.port)
    if listening != given.pid:
        return listening
    if given.kind == "other":
        with connected(given.host, given.port) as wire:
            return _answering(given.pid, given.port, wire.own_port, answered=False)
    with _logged_in(given) as wire:
        ADAPTERS[given.kind].ask(wire, given.wrong_figures)
        return _answering(given.pid, given.port, wire.own_port, answered=True)


def _state(given: argparse.Namespace) -> dict[str, Any]:
    return asdict(ask(given))


def _sample(given: argparse.Namespace) -> dict[str, Any] | None:
    begun, clock = time.time(), time.monotonic()

    def now() -> dict[str, Any]:
        figures = dict(ask(given).figures)
        t = begun + time.monotonic() - clock
        return {"t": t, **read_usage(given.pid), "stat": figures}

    if given.out is None:
        return now()
    with Path(given.out).open("a", encoding="utf-8") as file:
        due, last = time.monotonic(), False
        while True:
            file.write(json.dumps(now()) + "\n")
            file.flush()
            if last:
                return None
            due = max(due + given.interval_ms / 1000.0, time.monotonic())
            last = signal.sigtimedwait(_END, max(0.0, due - time.monotonic())) is not None


def _password(given: argparse.Namespace) -> str | None:
    return Path(given.password_file).read_text().rstrip("\r\n") if given.password_file else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent")
    commands = parser.add_subparsers(required=True)
    ports = commands.add_parser("free-ports")
    ports.add_argument("--count", type=int, default=1)
    ports.set_defaults(run=_free_ports)
    for name, run in (("wait-ready", _wait_ready), ("state", _state), ("sample", _sample)):
        command = commands.add_parser(name)
        command.add_argument("--host", default="127.0.0.1")
        command.add_argument("--port", type=int, required=True)
        command.add_argument("--kind", choices=sorted(ADAPTERS))
        command.add_argument("--password-file")
        command.add_argument("--wrong-figures", action="store_true")
        command.set_defaults(run=run)
        if name != "state":
            command.add_argument("--pid", type=int, required=True)
        if name == "wait-ready":
            command.add_argument("--timeout", type=float, default=60.0)
            command.add_argument("--file", action="append", default=[])
            command.add_argument("--argument", action="append", default=[])
        if name == "sample":
            command.add_argument("--interval-ms", type=int, default=1000)
            command.add_argument("--out")
    return parser


# Below the range from which Linux takes the ports of outgoing connections by default.
LOWEST_PORT, HIGHEST_PORT = 20_000, 32_000
_TO_BUS = 10_000  # from the port of a Redis node in cluster mode to the one for other nodes


def free_ports(count: int, seed: int | None = None) -> list[int]:
    """Return ports that no process on this host uses now, outside the range of outgoing connections.

    The port on which a node of a cluster talks to others lies in that range, so it is checked too.
    """
    wanted = random.Random(seed).sample(
        range(LOWEST_PORT, HIGHEST_PORT), HIGHEST_PORT - LOWEST_PORT
    )
    free = (port for port in wanted if not listens(port) and not listens(port + _TO_BUS))
    return [next(free) for _ in range(count)]


def listens(port: int) -> bool:
    """Return whether a process has the port, on any address."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return True
    return False


def file_versions(
    pid: int, names: Sequence[str], arguments: Sequence[str] = ()
) -> dict[str, list[int]]:
    """Return what differs if a file is replaced or written to: of `names`, and of the program that `pid` runs.

    Of the command's `arguments`, those count that are files, such as the script of an interpreter, unless they were
    written to since the process began: those are its own, such as a log.
    """
    versions = {}
    for name, path in [*((name, name) for name in names), (RUNS, f"/proc/{pid}/exe")]:
        with contextlib.suppress(OSError):  # a process of another user
            versions[name] = _version(Path(path).stat())
    for word in arguments:
        path = word.rpartition("=")[2]  # --option=PATH
        with contextlib.suppress(OSError):
            status = Path(path).stat()
            if path.startswith("/") and S_ISREG(status.st_mode) and status.st_mtime < _began(pid):
                versions[path] = _version(status)
    return versions


def _version(status: os.stat_result) -> list[int]:
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def read_preload(pid: int) -> dict[str, str | bool | None]:
    """Return the `first` library that LD_PRELOAD named when a process began, and whether the loader `ignored` it.

    What cannot be read is None. No other variable leaves the host, because some hold secrets.
    """
    proc = Path("/proc") / str(pid)
    try:
        first = first_preload((proc / "environ").read_bytes())
    except OSError:  # of another user
        first = None
    return {
        "first": os.path.realpath(first) if first and "/" in first else first,
        "ignored": ignores_preloads(proc / "auxv"),
    }


def first_preload(environ: bytes) -> str | None:
    """Return the first library of LD_PRELOAD in the content of /proc/PID/environ; empty if it names none.

    None: the process wrote over it, as Redis does to show a title.
    """
    variables = environ.removesuffix(b"\0").split(b"\0") if environ else []
    for variable in variables:
        if variable.startswith(_PRELOADS):
            libraries = variable.removeprefix(_PRELOADS).replace(b":", b" ").split()
            return libraries[0].decode(errors="replace") if libraries else ""
    return "" if all(b"=" in variable for variable in variables) else None


def ignores_preloads(auxv: Path) -> bool | None:
    """Return whether the loader ignored LD_PRELOAD, from /proc/PID/auxv: for programs that gain privileges."""
    try:
        content = auxv.read_bytes()
    except OSError:  # of another user
        return None
    whole = len(content) - len(content) % _AUXILIARY.size  # of 32 bits, it may end in half an entry
    entries = dict(_AUXILIARY.iter_unpack(content[:whole]))
    return bool(entries.get(_SECURE, 0))


def _began(pid: int) -> float:
    """Return when a process was started, in seconds since 1970. Raises OSError."""
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime + ticks / _TICKS


_LISTENS, _CONNECTED = "0A", "01"  # states in /proc/net/tcp


def listener(pid: int, port: int) -> int | None:
    """Return the process that serves on a port: another one than `pid`, if that listens; None if nobody can tell.

    If `pid` listens too, the other one is a copy of it that serves: a worker process of a server that forks.
    """
    sockets = {f"socket:[{inode}]" for inode in _inodes(port, _LISTENS)}
    try:
        program = Path(f"/proc/{pid}/exe").readlink() if _holds(pid, sockets) else None
    except OSError:  # of another user, or it has ended
        return None
    for other in _others_with(sockets, pid):
        with contextlib.suppress(OSError):
            if program in (None, Path(f"/proc/{other}/exe").readlink()):
                return other
    return None if program is None else pid


def _answering(pid: int, port: int, client: int, *, answered: bool) -> int:
    """Return the process that has the connection from the port `client`; `pid`, unless only others have it.

    A server that forks has it as well until it closes its copy. If nothing is `answered` yet, it may still fork.
    """
    until = time.monotonic() + FORKS_WITHIN_S
    while True:
        sockets = {f"socket:[{inode}]" for inode in _inodes(port, _CONNECTED, client)}
        others = list(_others_with(sockets, pid))
        try:
            own = _holds(pid, sockets)
        except OSError:  # of another user
            return pid
        if others and not own:
            return others[0]
        if (answered and not others) or time.monotonic() > until:
            return pid
        time.sleep(POLL_S)


def _others_with(sockets: set[str], pid: int) -> Iterator[int]:
    """Yield the processes except `pid` that have one of the sockets open."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != pid and _holds(int(entry.name), sockets):
                yield int(entry.name)


def _inodes(port: int, state: str, client: int | None = None) -> set[str]:
    """Return the sockets of a port in a state; with `client`, those that are connected to that port."""
    inodes = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
                fields = line.split()
                own, peer = (int(address.rpartition(":")[2], 16) for address in fields[1:3])
                if (fields[3], own) == (state, port) and client in (None, peer):
                    inodes.add(fields[9])
    return inodes


def _holds(pid: int, sockets: set[str]) -> bool:
    """Return whether a process has one of the sockets open. Raises OSError."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed in the meantime
            if str(descriptor.readlink()) in sockets:
                return True
    return False


_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")
_ROLLUP = {
    "rss": "Rss",
    "pss": "Pss",
    "pss_file": "Pss_File",
    "lazyfree": "LazyFree",
    "anon_huge": "AnonHugePages",
}


def read_usage(pid: int) -> dict[str, float | int | None]:
    """Return the figures of a process: bytes, seconds, threads. Raises OSError if it has ended."""
    proc = Path("/proc") / str(pid)
    fields = dict(
        line.split(":", 1) for line in (proc / "smaps_rollup").read_text().splitlines()[1:]
    )
    usage: dict[str, float | int | None] = {
        name: 1024 * int(fields[field].split()[0]) if field in fields else None
        for name, field in _ROLLUP.items()
    }
    stat = (proc / "stat").read_text().rpartition(")")[2].split()  # from field 3 on
    usage["cpu_user_s"], usage["cpu_sys_s"] = int(stat[11]) / _TICKS, int(stat[12]) / _TICKS
    usage["threads"], usage["vsz"] = int(stat[17]), int(stat[20])
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    usage["stacks_vsz"] = (
        None
        if limit == resource.RLIM_INFINITY
        else stack_bytes((proc / "maps").read_text(), limit, _PAGE)
    )
    return usage


def stack_bytes(maps: str, stack_size: int, page: int) -> int:
    """Return the address space of thread stacks: mappings of glibc's size behind a guard page."""
    guard_end, total = 0, 0
    for line in maps.splitlines():
        span, permissions, *_ = line.split()
        begin, end = (int(part, 16) for part in span.split("-"))
        size = end - begin
        if permissions == "---p" and size == page:
            guard_end = end
        elif begin == guard_end and permissions.startswith("rw") and 0 <= stack_size - size <= page:
            total += size
    return total


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and is not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"

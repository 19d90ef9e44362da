"""Hold a lab: raise it, carry out commands from a Unix socket, and end with all of it.

There is one thread, because the kernel ends the hosts when the thread that made them dies. A command is a JSON object
on one line: {"do": "cut", "host": "lab1"} is answered {"ok": true} or {"error": "..."}.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.lab.hosts import Host, Refused, Switch, make_key
from tools.lab.layout import Layout, host_name


class Keeper:
    """A running lab. `close` ends it."""

    def __init__(self, layout: Layout, count: int) -> None:
        self.layout = layout
        self.down = False
        layout.directory.mkdir(parents=True, exist_ok=True)
        layout.work_dir.mkdir(exist_ok=True)
        Path("/run/sshd").mkdir(exist_ok=True)
        if not layout.key.exists():
            make_key(layout.key)
        self.switch = Switch(layout)
        self.hosts: dict[str, Host] = {}
        try:
            for number in range(1, count + 1):
                name = host_name(number)
                host = Host(layout, self.switch, name, number)
                host.install()
                self.hosts[name] = host
            lines = [host.known_hosts_line() for host in self.hosts.values()]
            layout.known_hosts.write_text("".join(lines))
            for host in self.hosts.values():
                host.boot()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for host in self.hosts.values():
            if host.is_on:
                host.power_off()
        self.switch.close()

    # -- what may be asked

    def do(self, question: dict[str, Any]) -> dict[str, Any]:
        """Carry out a request and return the answer, an object, also if the request is refused."""
        verbs: dict[str, Callable[..., object]] = {
            "status": self._status,
            "down": self._down,
            "cut": lambda host, cable=None: self._link(host, cable, up=False),
            "heal": lambda host, cable=None: self._link(host, cable, up=True),
            "part": lambda a, b: self._route("add", a, b),
            "join": lambda a, b: self._route("delete", a, b),
            "power_off": lambda host: self._host(host).power_off(),
            "crash": lambda host: self._host(host).crash(),
            "boot": lambda host: self._host(host).boot(),
            "freeze": lambda host: self._host(host).signal_sshds(signal.SIGSTOP),
            "thaw": lambda host: self._host(host).signal_sshds(signal.SIGCONT),
            "clock": lambda host, seconds: self._host(host).step_clock(seconds),
            "limit": lambda host, mbit_per_s, cable=None: self._host(host).limit(
                self._host(host).cables_for(cable), mbit_per_s
            ),
            "delay": lambda host, seconds, loss_percent, cable=None: self._host(host).delay(
                self._host(host).cables_for(cable), seconds, loss_percent
            ),
            "unlimited": lambda host, cable=None: self._host(host).unlimited(
                self._host(host).cables_for(cable)
            ),
            "run": lambda host, argv: self._host(host).run(argv),
            "processes": lambda host: self._host(host).processes(),
        }
        arguments = {key: value for key, value in question.items() if key != "do"}
        try:
            return {"ok": True, "answer": verbs[question["do"]](**arguments)}
        except Refused as error:
            return {"error": str(error)}
        except (KeyError, TypeError, OSError) as error:
            return {"error": f"{question.get('do')}: {error!r}"}

    def _status(self) -> dict[str, Any]:
        hosts = {
            name: {
                "address": host.address,
                "data_address": host.cables["data"].address,
                "on": host.is_on,
            }
            for name, host in self.hosts.items()
        }
        return {"pid": os.getpid(), "hosts": hosts}

    def _down(self) -> None:
        self.down = True

    def _link(self, name: str, purpose: str | None, *, up: bool) -> None:
        for cable in self._host(name).cables_for(purpose):
            cable.link(up=up)

    def _route(self, verb: str, a: str, b: str) -> None:
        """Add or remove blackhole routes, which disconnect two hosts from each other only."""
        for here, there in ((a, b), (b, a)):
            for cable in self._host(there).cables_for(None):
                route = ["blackhole", f"{cable.address}/32"]
                self._host(here).run(["ip", "route", verb, *route])

    def _host(self, name: str) -> Host:
        if name not in self.hosts:
            raise Refused(f"there is no host {name}; there are {', '.join(self.hosts)}")
        return self.hosts[name]


def keep(layout: Layout, count: int, *, tied: bool) -> None:
    """Serve commands until `down`, a signal, or (`tied`) the end of standard input."""
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda *_: sys.exit(0))
    keeper = Keeper(layout, count)
    try:
        layout.socket.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(layout.socket))
            layout.socket.chmod(0o600)
            listener.listen(8)
            print("up", flush=True)
            _serve(keeper, listener, tied=tied)
    finally:
        keeper.close()
        layout.socket.unlink(missing_ok=True)
        for host in keeper.hosts:
            shutil.rmtree(layout.host_directory(host) / "work", ignore_errors=True)


def _serve(keeper: Keeper, listener: socket.socket, *, tied: bool) -> None:
    waited = [listener, *([sys.stdin] if tied else [])]
    while not keeper.down:
        ready = select.select(waited, [], [])[0]
        if sys.stdin in ready and not os.read(sys.stdin.fileno(), 1):
            return
        if listener not in ready:
            continue
        peer, _ = listener.accept()
        with peer, peer.makefile("rw", encoding="utf-8") as stream:
            line = stream.readline()
            if line:
                stream.write(json.dumps(keeper.do(json.loads(line))) + "\n")
                stream.flush()


def main() -> None:
    """Serve a lab: KEEPER DIRECTORY NUMBER COUNT tied|free."""
    directory, number, count, how = sys.argv[1:]
    try:
        keep(Layout(Path(directory), int(number)), int(count), tied=how == "tied")
    except Refused as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()

"""The program that asks a server on the server's own host: is it ready, what are its settings, what does it use.

perfrunner copies it there with the adapters as one file. It needs a Python and its standard library. Every command
prints one JSON document; a failure is {"error": ...} with exit status 1.

    free-ports   print ports that no process listens on
    wait-ready   wait until the server accepts a connection and answers
    state        print what the server says of itself
    sample       print memory and CPU time of the process, or append them to a file each interval until SIGTERM
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from perfrunner.servers.adapter import State
from perfrunner.servers.ports import free_ports
from perfrunner.servers.registry import ADAPTERS, adapter_for, guess_kind
from perfrunner.servers.usage import is_alive, read_usage
from perfrunner.servers.wire import WireError, connected, log_in

POLL_S = 0.02
PATIENCE_S = 20.0  # for an answer: a busy host may not schedule a server for seconds
_END = {signal.SIGTERM, signal.SIGINT}
AFTER_EXIT_S = 0.5  # a server that becomes a daemon answers soon after its first process has ended


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
    adapter = adapter_for(given.kind)
    if given.kind == "other":
        return State()
    patience = min(PATIENCE_S, getattr(given, "timeout", PATIENCE_S))
    with connected(given.host, given.port, patience) as wire:
        log_in(wire, _password(given))
        return adapter.ask(wire, given.wrong_figures)


def _free_ports(given: argparse.Namespace) -> dict[str, Any]:
    return {"ports": free_ports(given.count)}


def _wait_ready(given: argparse.Namespace) -> dict[str, Any]:
    """Wait for an answer; `alive` tells whether the process that was started is still there then."""
    deadline = time.monotonic() + given.timeout
    gone_at: float | None = None
    trouble = "nothing listens on its port"
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
            if not state.busy.startswith("loading"):
                return {"ready": True, "alive": alive, "kind": kind, "state": asdict(state)}
            given.kind, trouble = kind, state.busy
        except ConnectionRefusedError:
            pass
        except WireError as error:
            trouble = f"it answers: {error}"
            if not str(error).startswith(("LOADING", "the server closed")):
                return {"ready": False, "alive": alive, "error": trouble}
        except OSError as error:
            trouble = f"its port does not answer: {error}"
        time.sleep(POLL_S)
    return {"ready": False, "alive": is_alive(given.pid), "error": trouble}


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
        if name == "sample":
            command.add_argument("--interval-ms", type=int, default=1000)
            command.add_argument("--out")
    return parser

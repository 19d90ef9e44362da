"""Fork runs of `tests.support.worker` from a process that has imported perfrunner already.

The imports are half of the CPU time of a small fake run, and the tests start some hundred of them.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REQUEST_BYTES = 1 << 20


class Forked:
    """A run: the part of subprocess.Popen that the tests use."""

    def __init__(self, settings: dict[str, Any]) -> None:
        out, err, status = os.pipe(), os.pipe(), os.pipe()
        request = json.dumps({"settings": settings, "env": {**os.environ, "PYTHONPATH": str(ROOT)}})
        server = _server()
        socket.send_fds(server, [request.encode()], [out[1], err[1], status[1]])
        for end in (out[1], err[1], status[1]):
            os.close(end)
        self.stdout = os.fdopen(out[0])
        self.stderr = os.fdopen(err[0])
        self.pid = int(server.recv(64))
        self.returncode: int | None = None
        self._status = status[0]

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked run", timeout or 0.0)
            self.returncode = os.waitstatus_to_exitcode(int(os.read(self._status, 64)))
            os.close(self._status)
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _server() -> socket.socket:
    """Return the connection to the process that forks; the process ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, REQUEST_BYTES)
    with theirs:
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.forks"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=theirs,
            stdout=subprocess.DEVNULL,
        )
    return ours


def _next_request(server: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next requested run with its stdout, stderr and status; None once the tests have ended."""
    while True:
        try:
            text, descriptors, _, _ = socket.recv_fds(server, REQUEST_BYTES, 3)
        except InterruptedError:  # by SIGCHLD
            continue
        return (json.loads(text), descriptors) if text else None


def serve() -> dict[str, Any]:
    """Fork a process for each request, and return the settings in it. The server itself never returns."""
    server = socket.socket(fileno=os.dup(0))
    statuses: dict[int, int] = {}

    def ended(*_: object) -> None:
        for pid in list(statuses):
            results, status = os.waitpid(pid, os.WNOHANG)
            if results:
                os.write(statuses[pid], str(status).encode())
                os.close(statuses.pop(pid))

    signal.signal(signal.SIGCHLD, ended)
    while (asked := _next_request(server)) is not None:
        request, (out, err, status) = asked
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid == 0:
            break
        statuses[pid] = status
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.close(out)
        os.close(err)
        server.send(str(pid).encode())
    else:
        sys.exit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    os.setsid()
    server.close()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for descriptor in (out, err, status, *statuses.values()):
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    settings: dict[str, Any] = request["settings"]
    return settings


if __name__ == "__main__":
    from tests.support.worker import main

    sys.exit(main(serve()))

"""A connection that another process carries: `ssh -W` for ProxyJump, or the ProxyCommand, as ssh runs them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile

from perfrunner.errors import HostError
from perfrunner.hosts.local import end_group
from perfrunner.hosts.openssh import Proxy

_LONGEST_MESSAGE = 2000


class ProxyProcess:
    """A running proxy. `sock` is our end; closing ends the process and all that it started.

    If this process is killed, the kernel closes `sock`, and the proxy ends at the end of its input.
    """

    def __init__(self, proxy: Proxy, timeout_s: float) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed in `close`
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                # A session of its own: nothing can ask the user on the terminal, and Ctrl-C does not reach it.
                self._process = subprocess.Popen(
                    proxy.argv,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._stderr,
                    start_new_session=True,
                    env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"},
                )
        except OSError as error:
            ours.close()
            self._stderr.close()
            raise HostError(f"{proxy.argv[0]} cannot be started: {error.strerror}") from error
        self.sock = ours
        if proxy.passes_socket:
            try:
                self.sock = _received(ours, timeout_s)
            except BaseException:
                self.close()
                raise

    def output(self) -> str:
        """Return what the process wrote to its standard error, on one line."""
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace").strip()
        return "; ".join(line.strip() for line in text[-_LONGEST_MESSAGE:].splitlines())

    def wait(self, timeout_s: float) -> None:
        """Wait for the end of a process that has closed the connection, so that its output says why."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)

    def close(self) -> None:
        """End it. Harmless if it is closed already."""
        self.sock.close()
        if self._process.returncode is None:
            end_group(self._process)
        self._stderr.close()


def _received(ours: socket.socket, timeout_s: float) -> socket.socket:
    with ours:
        ours.settimeout(timeout_s)
        try:
            _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        except TimeoutError:
            fds = []
    if not fds:
        raise HostError("the ProxyCommand passed no socket (ProxyUseFdpass)")
    return socket.socket(fileno=fds[0])

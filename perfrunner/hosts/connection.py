"""Open SSH connections with fabric on the route that OpenSSH resolved, with a link whose silence is noticed."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import tempfile
import threading
import time
from typing import Any, ClassVar

import fabric
import paramiko
from fabric.runners import Remote

from perfrunner.errors import HostError
from perfrunner.hosts.hostkeys import RSA_SIGNATURES, SUFFIX, KnownHosts
from perfrunner.hosts.identities import OpenSshLogin, SlowLogin
from perfrunner.hosts.local import end_group
from perfrunner.hosts.openssh import Proxy, Route

INTERVAL_S = 2.0  # between two questions of the heartbeat
LIMIT_S = 6.0  # without an answer, before the link counts as lost
# For each answer to the login, as ssh has no limit: name servers, user directories and PAM modules of the host may be
# slow, and an agent may ask its user to touch a hardware key. A host that is gone is noticed by the socket.
LOGIN_TIMEOUT_S = 60.0
_PROXY_END_S = 1.0  # a proxy that has closed the connection ends soon, and its output says why
# Options of a TCP socket. macOS calls the first one TCP_KEEPALIVE and lacks the last one; there the heartbeat suffices.
_PATIENCE = {
    "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE": 3,  # s
    "TCP_KEEPINTVL": 1,  # s
    "TCP_KEEPCNT": 4,
    "TCP_USER_TIMEOUT": 8000,  # ms
}


class ProxyFailed(paramiko.SSHException):
    """The process that carries the connection ended; the message is its output."""


class PromptRemote(Remote):  # type: ignore[misc]
    """A Fabric runner that closes the channel on Ctrl-C; stock Fabric waits until the remote command ends."""

    def send_interrupt(self, interrupt: KeyboardInterrupt) -> None:
        """Close the channel."""
        self.channel.close()
        raise interrupt


class HostConnection(fabric.Connection):  # type: ignore[misc]
    """The connection to one host. `open` may be called again after the link was lost.

    Fabric and paramiko resolve nothing by themselves: no ssh_config, no default keys, no agent, no known_hosts.
    """

    # Declared here because Fabric treats attributes that the class does not have as configuration.
    _route: Any = None
    _proxy: Any = None  # ProxyProcess

    def __init__(self, route: Route) -> None:
        _keep_quiet()
        self._route = route
        config = fabric.Config(
            overrides={
                "load_ssh_configs": False,
                "runners": {"remote": PromptRemote},
                "run": {"in_stream": False, "hide": True},
            },
            lazy=True,
        )
        super().__init__(
            route.host,
            user=route.user,
            port=route.port,
            config=config,
            connect_kwargs={
                "banner_timeout": route.greeting_timeout_s,
                "auth_timeout": LOGIN_TIMEOUT_S,
                "channel_timeout": route.greeting_timeout_s,
                "allow_agent": False,
                "look_for_keys": False,
                "compress": route.compression,
            },
            connect_timeout=route.greeting_timeout_s,
        )

    def open(self) -> Any:
        """Connect and authenticate, unless connected. Raises HostError, OSError or paramiko.SSHException."""
        if self.is_connected:
            return None
        self._close_proxy()
        known = KnownHosts(self._route.host_keys)
        self.client.set_missing_host_key_policy(_Judge(known))
        sock = self._socket()
        # A socket serves one connection, so it is removed before the next call.
        own = {
            "sock": sock,
            "auth_strategy": OpenSshLogin(self._route.user, self._route.identities),
            "transport_factory": _Factory(self._route, known),
        }
        self.connect_kwargs.update(own)
        try:
            return super().open()
        except BaseException as error:
            output = self._proxy_output(error)
            self.client.close()
            sock.close()
            self._close_proxy()
            if output:
                raise ProxyFailed(output) from error
            raise
        finally:
            for name in own:
                del self.connect_kwargs[name]

    def close(self) -> None:
        """Close the connection and end the process that carries it."""
        super().close()
        self._close_proxy()

    def heartbeat(self) -> Heartbeat:
        """Start the thread that notices when the open connection's peer is silent; return at its first answer.

        A server answers nothing before the PAM modules of the login have ended. Raises SlowLogin.
        """
        heartbeat = Heartbeat(self.transport)
        if not heartbeat.answered.wait(LOGIN_TIMEOUT_S):
            raise SlowLogin("no answer to the first request")
        return heartbeat

    def _socket(self) -> socket.socket:
        if self._route.proxy is None:
            return responsive_socket(self._route)
        self._proxy = ProxyProcess(self._route.proxy, self._route.greeting_timeout_s)
        sock: socket.socket = self._proxy.sock
        return sock

    def _proxy_output(self, error: BaseException) -> str:
        """Return the output of the proxy before the connection failed; empty if that is not the cause."""
        if self._proxy is None or isinstance(error, HostError | paramiko.AuthenticationException):
            return ""
        if not isinstance(error, paramiko.SSHException | OSError | EOFError):
            return ""
        status: int | None = self._proxy.wait(_PROXY_END_S)
        output: str = self._proxy.output()
        return output or (f"the proxy ended with status {status}" if status else "")

    def _close_proxy(self) -> None:
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None


class _Judge(paramiko.MissingHostKeyPolicy):
    """Paramiko knows no host key, so it asks for each."""

    def __init__(self, known: KnownHosts) -> None:
        self._known = known

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        del client, hostname
        certificate = getattr(key, "public_blob", None)
        self._known.judge(key.asbytes(), certificate.key_blob if certificate else b"")


# One key exchange, of which the SSH library knows the first name alone.
_CURVE, _CURVE_FIRST = "curve25519-sha256", "curve25519-sha256@libssh.org"
_LIBRARY: Any = paramiko.Transport


class _Transport(paramiko.Transport):
    """Paramiko's transport, which also knows the name that RFC 8731 gave to a key exchange that it has.

    It asks for the types of host keys that it is given, and does not add certificates to them.
    """

    _kex_info: ClassVar = {
        **_LIBRARY._kex_info,  # noqa: SLF001
        _CURVE: _LIBRARY._kex_info[_CURVE_FIRST],  # noqa: SLF001
    }
    _preferred_kex = tuple(
        name
        for known in _LIBRARY._preferred_kex  # noqa: SLF001
        for name in ((_CURVE, known) if known == _CURVE_FIRST else (known,))
    )

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        return tuple(self.get_security_options().key_types)


class _Factory:
    """Make paramiko's transport with the algorithms that ssh_config allows and the host's known key types first."""

    def __init__(self, route: Route, known: KnownHosts) -> None:
        self._allowed = route.algorithms
        self._types = known.types()
        self._certified = known.has_authority

    def __call__(self, sock: socket.socket, **settings: Any) -> paramiko.Transport:
        transport = _Transport(sock, **settings)
        options = transport.get_security_options()
        options.ciphers = self._among(options.ciphers, "ciphers")
        options.digests = self._among(options.digests, "macs")
        options.kex = self._among(options.kex, "kexalgorithms")
        # A certificate is asked for in every case: its authority may be revoked.
        known = [name + suffix for name in options.key_types for suffix in (SUFFIX, "")]
        types = self._among(known, "hostkeyalgorithms")
        options.key_types = tuple(sorted(types, key=self._rank))  # a stable sort
        return transport

    def _among(self, ours: Any, option: str) -> tuple[str, ...]:
        allowed = self._allowed.get(option, ())
        both = tuple(name for name in ours if name in allowed)
        if not both:
            raise HostError(
                f"ssh_config: {option} allows nothing that perfrunner's SSH library supports",
                hint=f"it supports {', '.join(ours)}",
            )
        return both

    def _rank(self, algorithm: str) -> int:
        name = algorithm.removesuffix(SUFFIX)
        if self._certified and name != algorithm:
            return -1
        key_type = "ssh-rsa" if name in RSA_SIGNATURES else name
        return self._types.index(key_type) if key_type in self._types else len(self._types)


def _keep_quiet() -> None:
    """Discard Paramiko's log messages unless the program has configured logging for them."""
    logger = logging.getLogger("paramiko")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def responsive_socket(route: Route) -> socket.socket:
    """Return a connected TCP socket without Nagle's delay, whose peer's silence is noticed within 8 s.

    All addresses of the host are tried, in the system's order, each for the whole time.
    """
    failure: OSError | None = None
    # As bytes: Python refuses some names before the system is asked, and not by an OSError.
    name = route.host.encode("utf-8", "surrogateescape")
    for family, kind, protocol, _, address in socket.getaddrinfo(
        name, route.port, route.family, socket.SOCK_STREAM
    ):
        with contextlib.ExitStack() as stack:
            sock = stack.enter_context(socket.socket(family, kind, protocol))
            try:
                sock.settimeout(route.connect_timeout_s)
                _bind(sock, route)
                sock.connect(address)
                _make_responsive(sock)
            except OSError as error:
                failure = error
                continue
            stack.pop_all()
            return sock
    raise failure or OSError(f"{route.host} has no address")


def _bind(sock: socket.socket, route: Route) -> None:
    if route.bind_interface is not None and hasattr(socket, "SO_BINDTODEVICE"):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, route.bind_interface.encode())
    if route.bind_address is not None:
        sock.bind((route.bind_address, 0))


def _make_responsive(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PATIENCE.items():
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


class Heartbeat:
    """A daemon thread that checks that a connection still answers; it ends with the connection."""

    def __init__(self, transport: paramiko.Transport) -> None:
        self._transport = transport
        self._asked: float | None = None  # monotonic time of a request without an answer yet
        self.answered = threading.Event()  # for the first time; also set when the connection ends
        threading.Thread(target=self._beat, daemon=True, name="heartbeat").start()

    @property
    def silent(self) -> bool:
        """True if an answer is overdue."""
        asked = self._asked
        return asked is not None and time.monotonic() - asked > LIMIT_S

    def _beat(self) -> None:
        while self._transport.is_active():
            self._asked = time.monotonic()
            # Any answer counts; OpenSSH refuses the request. The call also returns when the connection ends.
            self._transport.global_request("keepalive@openssh.com", wait=True)
            self._asked = None
            self.answered.set()
            time.sleep(INTERVAL_S)


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
            raise HostError(
                f"{proxy.argv[0]} cannot be started: {error.strerror}",
                "ProxyJump of ssh_config runs ssh, and ProxyCommand runs in $SHELL",
            ) from error
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

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end of a process that has closed the connection, so that its output says why.

        Returns its status; None if it has not ended.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

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
        raise HostError(
            "the ProxyCommand passed no socket",
            "its program must send one, or set ProxyUseFdpass no in ssh_config",
        )
    return socket.socket(fileno=fds[0])

"""Ask OpenSSH how it would reach a host: `ssh -G` resolves the configuration, not perfrunner.

A `Destination` holds what the cluster file says, as options of an ssh command. `resolve` runs `ssh -G` with them and
returns a `Route`: everything that a connection needs. See docs/reference/ssh.md for the decision on each option.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from perfrunner.errors import HostError
from perfrunner.hosts.ssh_words import (
    expanded_home,
    file_names,
    native,
    quoted,
    quoted_path,
    with_tokens,
)

HostKeyPolicy: TypeAlias = Literal["strict", "accept-new"]

CONNECT_TIMEOUT_S = 5.0  # of TCP
GREETING_TIMEOUT_S = 10.0  # of the server's first answers
PROXY_TIMEOUT_S = 20.0  # the same behind a jump, which connects and authenticates itself first
_ASK_TIMEOUT_S = 60.0  # `Match exec` runs commands
_MOST_JUMPS = 8
_NO_CLIENT = "install the OpenSSH client: apt-get install openssh-client"
# Refused by `ssh -G`, which has no command to run in the background. Older versions do not know the option.
_FORKS, _NO_FORK = "Cannot fork into background", "ForkAfterAuthentication=no"
_BOM = b"\xef\xbb\xbf"
_HOP = re.compile(r"(?:(?P<user>.*)@)?(?:\[(?P<ip>[^]]+)\]|(?P<host>[^:]+))(?::(?P<port>\d+))?")
_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
# Lists of algorithms in `ssh -G`, which restrict those of the SSH library.
ALGORITHMS = ("ciphers", "macs", "kexalgorithms", "hostkeyalgorithms")


@dataclass(frozen=True)
class Destination:
    """A host as the cluster file names it. None leaves the decision to ssh_config."""

    address: str
    port: int | None = None
    user: str | None = None
    key: str | None = None
    config: str | None = None
    known_hosts: str | None = None
    host_keys: HostKeyPolicy | None = None

    def options(self) -> list[str]:
        """Return the options of the ssh command that goes where perfrunner goes."""
        words = [] if self.config is None else ["-F", expanded_home(self.config)]
        if self.port is not None:
            words += ["-p", str(self.port)]
        if self.user is not None:
            words += ["-l", self.user]
        if self.key is not None:
            # The agent's other keys are not offered: a server counts each against MaxAuthTries.
            words += ["-o", f"IdentityFile={quoted_path(self.key)}", "-o", "IdentitiesOnly=yes"]
        if self.known_hosts is not None:
            words += ["-o", f"UserKnownHostsFile={quoted_path(self.known_hosts)}"]
        if self.host_keys is not None:
            strict = "yes" if self.host_keys == "strict" else self.host_keys
            words += ["-o", f"StrictHostKeyChecking={strict}"]
        return words

    def command(self) -> list[str]:
        """Return the whole ssh command."""
        return ["ssh", *self.options(), "--", self.address]


@dataclass(frozen=True)
class Proxy:
    """A process that carries the connection, as ssh starts it for ProxyJump or ProxyCommand.

    argv: its command line. via: what it goes through, for messages.
    passes_socket: the process sends a connected socket (ProxyUseFdpass) instead of carrying the data.
    """

    argv: tuple[str, ...]
    via: str
    passes_socket: bool = False


@dataclass(frozen=True)
class Identities:
    """The keys and the agent that a login offers to the host.

    files: private (or public) key files, in order. certificates: certificate files. agent: socket of the agent, or
    None. only: of the agent's keys, offer those of `files` alone. public_keys: False if ssh_config excludes them.
    algorithms: those that PubkeyAcceptedAlgorithms allows; empty for all.
    """

    files: tuple[str, ...]
    certificates: tuple[str, ...]
    agent: str | None
    only: bool
    public_keys: bool = True
    algorithms: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostKeys:
    """The rules by which the host's key is judged.

    names: names to look for in the files; the second without the port, if there is one.
    user_files: files of the user; an unknown key is added to the first one under `accept-new`.
    hashed: add the name as a hash. checked: False for this machine under NoHostAuthenticationForLocalhost.
    signatures: algorithms by which an authority may sign the host's certificate. revoked: file of RevokedHostKeys.
    command: words of KnownHostsCommand, in which `%%` and the tokens of one question (%f %H %I %K %t) are left.
    """

    names: tuple[str, ...]
    user_files: tuple[str, ...]
    global_files: tuple[str, ...]
    policy: HostKeyPolicy
    hashed: bool = False
    checked: bool = True
    signatures: tuple[str, ...] = ()
    revoked: str = ""
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Route:
    """The way to a host, as ssh would take it.

    family: of addresses (socket.AF_*). connect_timeout_s: of TCP. greeting_timeout_s: of the server's first answers.
    algorithms: those that ssh_config allows, by option.
    """

    destination: Destination
    host: str
    port: int
    user: str
    identities: Identities
    host_keys: HostKeys
    proxy: Proxy | None
    family: int
    bind_address: str | None
    bind_interface: str | None
    connect_timeout_s: float
    greeting_timeout_s: float
    algorithms: Mapping[str, tuple[str, ...]]
    compression: bool

    @property
    def peer(self) -> str:
        """Return user@host:port, and what the connection goes through, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        via = "" if self.proxy is None else f" via {self.proxy.via}"
        return f"{self.user}@{host}:{self.port}{via}"


def resolve(destination: Destination) -> Route:
    """Return the route to a host. Raises HostError if ssh is missing or refuses the configuration."""
    settings = _settings(destination)
    if refusal := settings.all("refuseconnection"):  # of OpenSSH 10; an empty value is none
        raise HostError(f"ssh_config refuses connections to {destination.address}: {refusal[0]}")
    host, user = settings.first("hostname"), settings.first("user")
    if not settings.first("port"):
        raise HostError(f"{shutil.which('ssh')} -G prints no settings", _NO_CLIENT)
    port = int(settings.first("port"))
    proxy = _proxy(destination, settings)
    seconds = settings.first("connecttimeout")
    wanted = float(seconds) if seconds.isdecimal() and int(seconds) else None
    return Route(
        destination=destination,
        host=host,
        port=port,
        user=user,
        identities=_identities(destination, settings),
        host_keys=_host_keys(destination, settings, direct=proxy is None),
        proxy=proxy,
        family=_FAMILIES.get(settings.first("addressfamily"), socket.AF_UNSPEC),
        bind_address=settings.first("bindaddress") or None,
        bind_interface=settings.first("bindinterface") or None,
        connect_timeout_s=wanted or CONNECT_TIMEOUT_S,
        greeting_timeout_s=wanted or (GREETING_TIMEOUT_S if proxy is None else PROXY_TIMEOUT_S),
        algorithms={name: tuple(settings.first(name).split(",")) for name in ALGORITHMS},
        compression=settings.first("compression") == "yes",
    )


class _Settings:
    """The answer of `ssh -G`: lines of a lower-case option and its value."""

    def __init__(self, text: str) -> None:
        self._values: dict[str, list[str]] = {}
        for line in text.split("\n"):
            name, _, value = line.partition(" ")
            self._values.setdefault(name.lower(), []).append(value)

    def first(self, name: str) -> str:
        """Return the value of an option; empty if it is not set."""
        return self._values.get(name, [""])[0]

    def all(self, name: str) -> list[str]:
        """Return the values of an option that may be given several times; `none` is no value."""
        return [value for value in self._values.get(name, []) if value.lower() != "none"]


def _settings(destination: Destination, *more: str) -> _Settings:
    """Ask ssh for the settings of a host; `more` are further options."""
    command = ["ssh", "-G", *more, *destination.options(), "--", destination.address]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise HostError("no ssh program is installed on this machine", _NO_CLIENT) from None
    except subprocess.TimeoutExpired:
        raise HostError(
            f"ssh does not resolve {destination.address} within {_ASK_TIMEOUT_S:g} s",
            "look at the `Match exec` commands of ssh_config",
        ) from None
    except OSError as error:
        raise HostError(f"ssh cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "Pseudo-terminal" not in line]
        message = "; ".join(lines) or f"status {done.returncode}"
        if _FORKS in message and _NO_FORK not in more:
            return _settings(destination, *more, "-o", _NO_FORK)
        raise HostError(
            f"ssh cannot resolve {destination.address}: {message}", _hint(destination, message)
        )
    return _Settings(done.stdout)


def _hint(destination: Destination, message: str) -> str:
    file = destination.config and Path(expanded_home(destination.config))
    if "No user exists for uid" in message:
        return "ssh needs an entry of this user in /etc/passwd (see docs/how-to/containers.md)"
    if file and file.is_file() and file.read_bytes()[:3] == _BOM:
        return f"the file begins with a byte order mark; remove it: sed -i '1s/^\\xEF\\xBB\\xBF//' {file}"
    return "the same command by hand shows it: ssh -G"


def _proxy(destination: Destination, settings: _Settings) -> Proxy | None:
    command, host, port = (settings.first(n) for n in ("proxycommand", "hostname", "port"))
    if jumps := _jumps(destination, settings):
        _refuse_loop(destination, jumps)
        tokens = _tokens(destination, settings)
        via = with_tokens(settings.first("proxyjump"), tokens, "ProxyJump")
        user, hop, hop_port = jumps[-1]
        # The command line that ssh builds for itself.
        words = ["ssh"]
        words += ["-l", user] if user else []
        words += ["-p", hop_port] if hop_port else []
        words += ["-J", via.rpartition(",")[0]] if len(jumps) > 1 else []
        config = [] if destination.config is None else ["-F", expanded_home(destination.config)]
        to = ["-W", f"[{host}]:{port}", "--", hop]
        return Proxy((*map(native, words), *config, *map(native, to)), via)
    if command and command.lower() != "none":
        if command.strip() == "-":
            raise HostError(f"{destination.address}: ProxyCommand - is not possible here")
        shell = os.environ.get("SHELL") or "/bin/sh"
        text = with_tokens(command, _tokens(destination, settings), "ProxyCommand")
        passes_socket = settings.first("proxyusefdpass") == "yes"
        return Proxy((shell, "-c", native(f"exec {text}")), text, passes_socket)
    return None


def _tokens(destination: Destination, settings: _Settings) -> Mapping[str, str]:
    """Return the tokens of ProxyCommand and ProxyJump, which `ssh -G` leaves."""
    return {
        "%": "%", "h": settings.first("hostname"), "n": destination.address,
        "k": settings.first("hostkeyalias") or destination.address,
        "p": settings.first("port"), "r": settings.first("user"),
    }  # fmt: skip


def _jumps(destination: Destination, settings: _Settings) -> list[Sequence[str]]:
    """Return user, host and port of each jump; what is not given is empty."""
    text = settings.first("proxyjump")
    if not text or text.lower() == "none":
        return []
    tokens = _tokens(destination, settings)
    return [
        [with_tokens(part, tokens, "ProxyJump") for part in _hop(jump)] for jump in text.split(",")
    ]


def _hop(jump: str) -> tuple[str, str, str]:
    """Return user, host and port of one jump, as `ssh -G` writes it; what is not given is empty."""
    match = _HOP.fullmatch(jump.removeprefix("ssh://"))
    if match is None:
        raise HostError(f"ssh_config: expected [user@]host[:port] in ProxyJump, got {jump}")
    return match["user"] or "", match["ip"] or match["host"], match["port"] or ""


def _refuse_loop(destination: Destination, jumps: list[Sequence[str]]) -> None:
    """Raise HostError if jumps lead back to themselves: ssh would start processes without end."""
    seen: list[Sequence[str]] = []
    while jumps:
        jump = jumps[0]  # only the first one has jumps of its own
        user, host, port = jump
        if jump in seen or len(seen) > _MOST_JUMPS:
            way = " via ".join([destination.address, *(name for _, name, _ in seen), host])
            raise HostError(f"ssh_config: ProxyJump is circular: {way}")
        seen.append(jump)
        number = int(port) if port else None
        hop = Destination(host, number, user or None, config=destination.config)
        jumps = _jumps(hop, _settings(hop))


def _identities(destination: Destination, settings: _Settings) -> Identities:
    methods = settings.first("preferredauthentications")
    return Identities(
        files=tuple(_expanded(settings.all("identityfile"), destination)),
        certificates=tuple(_expanded(settings.all("certificatefile"), destination)),
        agent=_agent(settings.first("identityagent")),
        only=settings.first("identitiesonly") == "yes",
        public_keys=settings.first("pubkeyauthentication") not in ("no", "false")
        and (not methods or "publickey" in methods.split(",")),
        algorithms=tuple(filter(None, settings.first("pubkeyacceptedalgorithms").split(","))),
    )


def _agent(name: str) -> str | None:
    """Return the agent's socket from the value of IdentityAgent."""
    if name.lower() == "none":
        return None
    if not name or name == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    if name.startswith("$"):
        return os.environ.get(name[1:].strip("{}")) or None
    return native(name)


def _host_keys(destination: Destination, settings: _Settings, *, direct: bool) -> HostKeys:
    host, port = settings.first("hostname"), int(settings.first("port"))
    strict = settings.first("stricthostkeychecking")
    accepts = strict in ("accept-new", "no", "off", "false")
    if alias := settings.first("hostkeyalias"):
        names: tuple[str, ...] = (alias,)
    else:
        plain = host.lower()
        names = (plain,) if port == 22 else (f"[{plain}]:{port}", plain)
    own = file_names(
        settings.first("userknownhostsfile"), single=destination.known_hosts is not None
    )
    trusts_here = settings.first("nohostauthenticationforlocalhost") == "yes" and not alias
    is_here = host in ("localhost", "::1") or host.startswith("127.")
    return HostKeys(
        names=names,
        user_files=tuple(own),
        global_files=tuple(file_names(settings.first("globalknownhostsfile"))),
        policy="accept-new" if accepts else "strict",
        hashed=settings.first("hashknownhosts") == "yes",
        checked=not (trusts_here and direct and is_here),
        signatures=tuple(settings.first("casignaturealgorithms").split(",")),
        revoked=next(iter(_expanded(settings.all("revokedhostkeys"), destination)), ""),
        command=tuple(_known_hosts_command(destination, settings)),
    )


def _known_hosts_command(destination: Destination, settings: _Settings) -> Iterable[str]:
    """Yield the words of KnownHostsCommand, with the tokens expanded that do not depend on the question."""
    mark = secrets.token_hex(8)
    try:
        words = [
            native(word) for text in settings.all("knownhostscommand") for word in shlex.split(text)
        ]
    except ValueError as error:
        raise HostError(f"ssh_config: KnownHostsCommand: {error}") from None
    for word in words:
        if "%" in word or "${" in word:
            marked = re.sub(r"%%|%(?=[fHIKt])", lambda m: m[0] if m[0] == "%%" else mark, word)
            # Behind an x, the word has no meaning of its own as an agent.
            agent = f"IdentityAgent={quoted('x' + marked)}"
            expanded = native(_settings(destination, "-o", agent).first("identityagent"))[1:]
            yield expanded.replace("%", "%%").replace(mark, "%")
        else:
            yield word


def _expanded(names: Sequence[str], destination: Destination) -> Iterable[str]:
    """Yield file names with `~` and tokens expanded: `ssh -G` leaves them, except in IdentityAgent."""
    for name in map(native, names):
        if "%" in name or "${" in name:
            agent = f"IdentityAgent={quoted(name)}"
            yield native(_settings(destination, "-o", agent).first("identityagent"))
        else:
            yield expanded_home(name)

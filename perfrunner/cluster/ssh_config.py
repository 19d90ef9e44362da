"""The way to a host: the cluster file's word, completed by an OpenSSH client configuration where it names one.

Read from the configuration: HostName, Port, User, IdentityFile, IdentitiesOnly and ProxyJump (also several hops), of
files that it Includes, too. ProxyCommand is refused. Everything else of it (host-key rules, forwarding) is left alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfrunner.errors import HostError

if TYPE_CHECKING:
    import paramiko

_HOP = re.compile(r"(?:(?P<user>[^@]+)@)?(?P<host>\[[^]]+\]|[^:@]+)(?::(?P<port>\d+))?")
_MOST_HOPS = 8
_LINE = re.compile(r"\s*(?P<word>Include|Host|Match)\b\s*=?\s*(?P<rest>.*)", re.IGNORECASE)
_MOST_INCLUDES = 16  # one in the other, as OpenSSH has it


@dataclass(frozen=True)
class Endpoint:
    """An sshd and who we are there. No `keys`: the default ones. `agent`: whether its keys are offered, too."""

    address: str
    port: int = 22
    user: str | None = None
    keys: tuple[str, ...] = ()
    agent: bool = True

    @property
    def known_as(self) -> str:
        """In a known-hosts file."""
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"


def way_to(
    address: str,
    *,
    port: int | None = None,
    user: str | None = None,
    key: str | None = None,
    config: str | None = None,
) -> tuple[Endpoint, ...]:
    """The hops to `address` and, last, itself. None: what `config` says, else the usual. HostError: no such file."""
    read = None if config is None else _read(Path(config).expanduser())
    return _way(address, port, user, key, read, 0)


def _way(
    alias: str,
    port: int | None,
    user: str | None,
    key: str | None,
    config: paramiko.SSHConfig | None,
    depth: int,
) -> tuple[Endpoint, ...]:
    if depth > _MOST_HOPS:
        raise HostError(f"ProxyJump of {alias} leads through more than {_MOST_HOPS} hosts")
    said = _said(config, alias)
    only = said.get("identitiesonly", "no") == "yes"
    target = Endpoint(
        address=said.get("hostname", alias),
        port=port or _port(said.get("port", "22"), alias),
        user=user or said.get("user"),
        keys=_keys(said) if key is None else (str(Path(key).expanduser()),),
        agent=key is None and not only,
    )
    hops: list[Endpoint] = []
    jumps = said.get("proxyjump", "none")
    for jump in jumps.split(",") if jumps.lower() != "none" else ():
        found = _HOP.fullmatch(jump.strip())
        if found is None:
            raise HostError(f"ProxyJump of {alias}: {jump!r} is not [user@]host[:port]")
        wanted = found["port"]
        through = _way(
            found["host"].strip("[]"),
            int(wanted) if wanted else None,
            found["user"],
            None,
            config,
            depth + 1,
        )
        hops += through if not hops else through[-1:]  # only the first is reached by its own hops
    return (*hops, target)


def _said(config: paramiko.SSHConfig | None, alias: str) -> dict[str, Any]:
    if config is None:
        return {}
    import paramiko

    try:
        said = dict(config.lookup(alias))
    except (paramiko.SSHException, ValueError, OSError) as error:
        raise HostError(f"ssh_config, what it says of {alias}: {error}") from error
    if said.get("proxycommand") and "proxyjump" not in said:
        raise HostError(
            f"ssh_config: {alias} has a ProxyCommand, which perfrunner does not run",
            hint="ProxyJump leads through other hosts; `ProxyCommand none` for this host takes it off",
        )
    return said


def _keys(said: dict[str, Any]) -> tuple[str, ...]:
    """Files that are there: the others name keys of the agent, or nothing; ssh(1) passes them over, too."""
    named = [Path(one).expanduser() for one in said.get("identityfile", ())]
    return tuple(str(path) for path in named if path.suffix != ".pub" and path.exists())


def _port(text: str, alias: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise HostError(f"ssh_config: the Port of {alias} is no port: {text!r}")
    return int(text)


def _read(path: Path) -> paramiko.SSHConfig:
    import paramiko

    try:
        return paramiko.SSHConfig.from_text("\n".join(_lines(path, 0)) + "\n")
    except OSError as error:
        raise HostError(f"ssh_config {error.filename} cannot be read: {error.strerror}") from error
    except paramiko.ConfigParseError as error:
        raise HostError(f"ssh_config {path}: {error}") from error


def _lines(path: Path, depth: int) -> Iterator[str]:
    """With what it Includes in the place of that line: Paramiko passes such lines over."""
    if depth > _MOST_INCLUDES:
        raise HostError(f"ssh_config {path}: Include goes deeper than {_MOST_INCLUDES} files")
    section = ""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        found = _LINE.fullmatch(line)
        if found is None:
            yield line
        elif found["word"].lower() != "include":
            section = " ".join((found["word"].lower(), *found["rest"].split()))
            yield line
        elif section not in ("", "host *", "match all"):
            raise HostError(
                f"ssh_config {path}: Include within `{section}` is not read",
                hint="move it to the file's begin",
            )
        else:
            for other in _included(found["rest"], path):
                yield from _lines(other, depth + 1)
            yield "Host *"  # a section ends with the file that it began in


def _included(patterns: str, path: Path) -> Iterator[Path]:
    """What is not absolute is of ~/.ssh, as for ssh(1). A pattern without a file is nothing."""
    try:
        words = shlex.split(patterns, comments=True)
    except ValueError as error:
        raise HostError(f"ssh_config {path}: Include {patterns}: {error}") from error
    for word in words:
        pattern = Path("~/.ssh").expanduser() / Path(word).expanduser()
        found = Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor)))
        yield from (one for one in sorted(found) if one.is_file())

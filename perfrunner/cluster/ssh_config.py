"""The way to a host: the cluster file's word, completed by an OpenSSH client configuration where it names one.

Read from the configuration: HostName, Port, User, IdentityFile and ProxyJump (also several hops). Everything else of it
(commands, host-key rules, forwarding) is left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perfrunner.errors import HostError

if TYPE_CHECKING:
    import paramiko

_HOP = re.compile(r"(?:(?P<user>[^@]+)@)?(?P<host>\[[^]]+\]|[^:@]+)(?::(?P<port>\d+))?")
_MOST_HOPS = 8


@dataclass(frozen=True)
class Endpoint:
    """An sshd and who we are there. No `keys`: the agent and the default ones."""

    address: str
    port: int = 22
    user: str | None = None
    keys: tuple[str, ...] = ()

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
    said = {} if config is None else config.lookup(alias)
    keys = (key,) if key is not None else tuple(said.get("identityfile", ()))
    target = Endpoint(
        address=said.get("hostname", alias),
        port=port or int(said.get("port", 22)),
        user=user or said.get("user"),
        keys=tuple(str(Path(one).expanduser()) for one in keys),
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


def _read(path: Path) -> paramiko.SSHConfig:
    import paramiko

    try:
        return paramiko.SSHConfig.from_path(str(path))
    except OSError as error:
        raise HostError(f"ssh_config {path} cannot be read: {error.strerror}") from error
    except paramiko.ConfigParseError as error:
        raise HostError(f"ssh_config {path}: {error}") from error

"""The hosts of an experiment and what each of them does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from perfrunner.spec.base import ListAsTuple, Piece, PlainName, matching
from perfrunner.spec.suggest import expected_name

Address = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9.:_-]*", "a host name or an IP address")]
RemoteUser = Annotated[str, matching(r"[a-z_][a-z0-9_.-]*", "a user name")]
Port = Annotated[int, Field(ge=1, le=65535)]
# It is created, filled and emptied on the host: an absolute directory below the root, without `..`.
WorkDir = Annotated[
    str,
    matching(
        r"(?!.*/\.\.(?:/|$))(?:~|/[A-Za-z0-9._-]+)(?:/[A-Za-z0-9._-]+(?:%u)?)+",
        "an absolute directory (or one below ~) at least two levels deep, such as /var/tmp/perfrunner-%u",
    ),
]

# It outlives a reboot, on a real disk; %u is the number of the user on the host, whose own it is.
DEFAULT_WORK_DIR = "/var/tmp/perfrunner-%u"


class HostSpec(Piece):
    """One host. Paths of `key` and `known_hosts` are on the machine that runs perfrunner."""

    address: Address = "127.0.0.1"
    port: Port = 22
    user: RemoteUser | None = Field(
        default=None, description="SSH user; none: the caller's SSH default"
    )
    key: str | None = Field(
        default=None, description="private key; none: the SSH agent and default keys"
    )
    known_hosts: str | None = Field(
        default=None, description="none: ~/.ssh/known_hosts; always checked"
    )
    host_keys: Literal["strict", "accept-new"] = Field(
        default="strict",
        description="accept-new: an unknown host's key is added to known_hosts; a changed one is refused",
    )
    work_dir: WorkDir = DEFAULT_WORK_DIR


class ClusterSpec(Piece):
    """Hosts with roles: one engine node, one load client or more (the same host may be both)."""

    name: PlainName
    transport: Literal["local", "ssh"]
    hosts: Annotated[dict[PlainName, HostSpec], Field(min_length=1)]
    engine_nodes: Annotated[tuple[str, ...], ListAsTuple]
    load_clients: Annotated[tuple[str, ...], ListAsTuple]

    @field_validator("engine_nodes")
    @classmethod
    def _one_node(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(names) != 1:
            raise ValueError(f"expected exactly one host in this version; got {len(names)}")
        return names

    @field_validator("engine_nodes", "load_clients")
    @classmethod
    def _known_hosts(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        hosts: Mapping[str, HostSpec] | None = info.data.get("hosts")
        if not names:
            raise ValueError("expected at least one host; got an empty list")
        for name in names:
            if hosts is not None and name not in hosts:
                raise ValueError(expected_name("a host of this cluster", name, hosts))
            if names.count(name) > 1:
                raise ValueError(f"expected each host once; got {name} {names.count(name)} times")
        return names

    @model_validator(mode="after")
    def _local_is_here(self) -> ClusterSpec:
        if self.transport == "local" and len(self.hosts) != 1:
            raise ValueError(f"expected one host with transport local; got {', '.join(self.hosts)}")
        return self

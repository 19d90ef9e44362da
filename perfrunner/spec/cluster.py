"""Define the hosts of an experiment and their roles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from perfrunner.spec.base import ListAsTuple, Piece, PlainName, matching
from perfrunner.spec.small import LOCAL_CLUSTER
from perfrunner.spec.suggest import expected_name

# As ssh does, refuse what a shell or an option parser could take for something else.
Address = Annotated[
    str,
    matching(
        r"[^\s\x00-\x1f\x7f'\"`$\\;&<>|(){}\[\]@/,#*?!-][^\s\x00-\x1f\x7f'\"`$\\;&<>|(){}\[\]@/,#*?!]*",
        "a host name, an alias of ssh_config or an IP address without brackets",
    ),
]
RemoteUser = Annotated[
    str,
    matching(
        r"(?!-)(?!.*\\$)[^\s\x00-\x1f\x7f'\"`;&<>|(){}]+",
        "a user name without blanks, quotes and characters of the shell",
    ),
]
Port = Annotated[int, Field(ge=1, le=65535)]
# perfrunner creates, fills and empties this directory: absolute, below the root, without `..`.
WorkDir = Annotated[
    str,
    matching(
        r"(?!.*/\.\.(?:/|$))(?:~|/[A-Za-z0-9._-]+)(?:/[A-Za-z0-9._-]+(?:%u)?)+",
        "an absolute directory (or one below ~) at least two levels deep, such as /var/tmp/perfrunner-%u",
    ),
]

MAX_REPLICAS = 3
LOOPBACK = {"127.0.0.1", "::1", "localhost"}
# /var/tmp survives a reboot and is on a real disk. %u is the numeric id of the user on the host.
DEFAULT_WORK_DIR = "/var/tmp/perfrunner-%u"


class HostSpec(Piece):
    """One host. Paths of `key`, `ssh_config` and `known_hosts` are on the machine that runs perfrunner."""

    address: Address = "127.0.0.1"
    data_address: Address | None = Field(
        default=None,
        description="address at which clients and other nodes reach its engine; none: address",
    )
    port: Port | None = Field(default=None, description="none: as ssh_config says, else 22")
    user: RemoteUser | None = Field(
        default=None, description="SSH user; none: as ssh_config says, else the caller's name"
    )
    key: str | None = Field(
        default=None,
        description="private key; none: as ssh_config says, the agent and default keys",
    )
    ssh_config: str | None = Field(
        default=None,
        description="OpenSSH client configuration instead of the user's and the system's, as ssh -F",
    )
    known_hosts: str | None = Field(
        default=None,
        description="none: as ssh_config says, else ~/.ssh/known_hosts; always checked",
    )
    host_keys: Literal["strict", "accept-new"] | None = Field(
        default=None,
        description="accept-new: an unknown host's key is added to known_hosts; a changed one is refused."
        " none: as ssh_config says, else strict",
    )
    work_dir: WorkDir = DEFAULT_WORK_DIR


class ClusterSpec(Piece):
    """Hosts with roles: one or more engine nodes and load clients, and optionally a build host.

    One host may have several roles.
    """

    name: PlainName
    transport: Literal["local", "ssh"]
    hosts: Annotated[dict[PlainName, HostSpec], Field(min_length=1)]
    engine_nodes: Annotated[tuple[str, ...], ListAsTuple]
    load_clients: Annotated[tuple[str, ...], ListAsTuple]
    build_host: str | None = Field(
        default=None, description="the host that builds; none: the machine that runs perfrunner"
    )
    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = Field(
        default=0,
        description="copies of every document on other nodes, in addition to the active one",
    )

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

    @field_validator("build_host")
    @classmethod
    def _known_build_host(cls, name: str | None, info: ValidationInfo) -> str | None:
        hosts: Mapping[str, HostSpec] | None = info.data.get("hosts")
        if name is not None and hosts is not None and name not in hosts:
            raise ValueError(expected_name("a host of this cluster", name, hosts))
        return name

    @field_validator("replicas")
    @classmethod
    def _on_other_nodes(cls, replicas: int, info: ValidationInfo) -> int:
        nodes = info.data.get("engine_nodes")
        if nodes is not None and replicas >= len(nodes):
            raise ValueError(
                f"expected fewer replicas than engine nodes; got {replicas} with {len(nodes)}"
            )
        return replicas

    def is_here(self, name: str) -> bool:
        """Tell whether a host is the machine that runs perfrunner, judged by its address."""
        return self.transport == "local" or self.hosts[name].address in LOOPBACK

    @model_validator(mode="after")
    def _local_is_here(self) -> ClusterSpec:
        if self.transport == "local" and len(self.hosts) != 1:
            raise ValueError(f"expected one host with transport local; got {', '.join(self.hosts)}")
        return self


def local_cluster() -> ClusterSpec:
    """Return the cluster that consists of this machine as engine node and load client."""
    return ClusterSpec.model_validate(LOCAL_CLUSTER)

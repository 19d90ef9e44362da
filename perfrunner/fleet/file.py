"""The fleet file: the queue's database, the host groups, and what runs every night."""

from __future__ import annotations

import os
import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, field_validator

from perfrunner.cluster.lock import SHARE
from perfrunner.spec.base import ListAsTuple, Piece, PlainName
from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.document import Node, load_document, plain
from perfrunner.spec.includes import shown
from perfrunner.spec.loader import load_cluster
from perfrunner.spec.local import LOCAL
from perfrunner.spec.problems import Problems
from perfrunner.spec.suggest import expected_name, nearest
from perfrunner.spec.validate import note_errors

Priority = Annotated[int, Field(ge=1, le=1_000_000)]
NORMAL_PRIORITY = 100
NIGHTLY_PRIORITY = 200  # what a person waits for goes first
DEFAULT_DATABASE = "fleet.sqlite"


class GroupSpec(Piece):
    """Hosts that one run at a time has."""

    cluster: str = Field(description="a cluster file, or local")
    out: str | None = Field(
        default=None, description="directory of its results; none: results/<group>"
    )


class NightlySpec(Piece):
    """A spec that runs once a night on each of its groups."""

    spec: str
    groups: Annotated[tuple[str, ...], ListAsTuple, Field(min_length=1)]
    profile: str | None = None
    repeats: Annotated[int, Field(ge=1, le=1000)] | None = None
    priority: Priority = NIGHTLY_PRIORITY


class FleetSpec(Piece):
    """Paths are relative to the file."""

    database: str = Field(
        default=DEFAULT_DATABASE, description="a SQLite file, or a postgresql:// URL"
    )
    store: str | None = Field(
        default=None,
        description="results of all groups: a postgresql:// or sqlite:/// URL; none: each in its own directory",
    )
    groups: Annotated[dict[PlainName, GroupSpec], Field(min_length=1)]
    nightly: Annotated[tuple[NightlySpec, ...], ListAsTuple] = ()
    timezone: str | None = Field(
        default=None, description="in which a night is a night; none: this machine's"
    )

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        known = zoneinfo.available_timezones()
        if name is not None and name not in known:
            near = nearest(name, known)
            raise ValueError(
                f"expected a time zone such as Europe/Berlin, got {name}{f' (did you mean {near}?)' if near else ''}"
            )
        return name


@dataclass(frozen=True)
class Group:
    """`cluster` as `perfrunner run --cluster` takes it; paths are absolute."""

    name: str
    cluster: str
    out: Path


@dataclass(frozen=True)
class Nightly:
    """An entry of the nightly list; `spec` is absolute."""

    spec: Path
    groups: tuple[str, ...]
    profile: str | None
    repeats: int | None
    priority: int


@dataclass(frozen=True)
class Fleet:
    """A fleet file, checked."""

    path: Path
    database: str
    groups: Mapping[str, Group]
    nightly: tuple[Nightly, ...]
    timezone: str | None
    store: str | None = None


def load_fleet(path: Path, *, hosts: bool = True) -> Fleet:
    """SpecError, with everything that is wrong, as file:line: field: ...

    Without `hosts` the groups' cluster files are not read: a thousand take a second, and who asks how jobs stand need
    not wait for that.
    """
    problems = Problems()
    node = load_document(path, shown(path), problems)
    problems.raise_if_any()
    if node is None:
        raise AssertionError("a file that could not be read says why")
    try:
        spec = FleetSpec.model_validate(plain(node))
    except ValidationError as error:
        note_errors(error, node, FleetSpec, problems)
        problems.raise_if_any()
        raise AssertionError("a validation error says something") from error
    fleet = _Reading(path.resolve().parent, node, problems, hosts).fleet(path, spec)
    problems.raise_if_any()
    return fleet


@dataclass
class _Reading:
    """What only the other files tell: whose hosts are whose, and whether the files are there."""

    directory: Path
    node: Node
    problems: Problems
    hosts: bool

    def fleet(self, path: Path, spec: FleetSpec) -> Fleet:
        groups = {name: self._group(name, group) for name, group in spec.groups.items()}
        self._each_its_own(groups)
        nightly = tuple(self._nightly(i, entry, groups) for i, entry in enumerate(spec.nightly))
        self._once_a_group(nightly)
        database = spec.database
        if "://" not in database:
            database = str(self._absolute(database))
        return Fleet(path.resolve(), database, groups, nightly, spec.timezone, spec.store)

    def _group(self, name: str, spec: GroupSpec) -> Group:
        out = self._absolute(spec.out or f"results/{name}")
        if spec.cluster == LOCAL:
            return Group(name, LOCAL, out)
        cluster = self._absolute(spec.cluster)
        if not cluster.is_file():
            self.problems.add(
                self._at("groups", name, "cluster").mark,
                "",
                f"expected {LOCAL} or the path of a cluster file, got {spec.cluster}: no such file",
            )
        return Group(name, str(cluster), out)

    def _each_its_own(self, groups: Mapping[str, Group]) -> None:
        """A host is in one group, and so is a results directory: there is one run at a time in each."""
        hosts: dict[str, str] = {}
        outs: dict[Path, str] = {}
        for group in groups.values():
            mark = self._at("groups", group.name).mark
            if (other := outs.setdefault(group.out, group.name)) != group.name:
                self.problems.add(
                    mark,
                    "out",
                    f"expected a directory of its own, got that of {other}: {group.out}",
                )
            if not self.hosts or (group.cluster != LOCAL and not Path(group.cluster).is_file()):
                continue
            for host in _measured_hosts(load_cluster(Path(group.cluster))):
                if (other := hosts.setdefault(host, group.name)) != group.name:
                    self.problems.add(
                        mark,
                        "cluster",
                        f"expected each host in one group, got {host} that is in {other}, too",
                    )

    def _nightly(self, index: int, spec: NightlySpec, groups: Mapping[str, Group]) -> Nightly:
        path = self._absolute(spec.spec)
        if not path.is_file():
            self.problems.add(
                self._at("nightly", index, "spec").mark,
                "",
                f"expected the path of a spec, got {spec.spec}: no such file",
            )
        for place, name in enumerate(spec.groups):
            if name not in groups:
                self.problems.add(
                    self._at("nightly", index, "groups", place).mark,
                    "",
                    expected_name("a group of this file", name, groups),
                )
        return Nightly(path, spec.groups, spec.profile, spec.repeats, spec.priority)

    def _once_a_group(self, nightly: tuple[Nightly, ...]) -> None:
        """The key of a night's job is its spec and its group."""
        seen: set[tuple[Path, str]] = set()
        for index, entry in enumerate(nightly):
            for group in entry.groups:
                if (entry.spec, group) in seen:
                    self.problems.add(
                        self._at("nightly", index).mark,
                        "",
                        f"expected a spec once on a group, got {entry.spec.name} on {group} twice",
                    )
                seen.add((entry.spec, group))

    def _absolute(self, text: str) -> Path:
        return (self.directory / Path(text).expanduser()).resolve()

    def _at(self, *path: str | int) -> Node:
        """The deepest value on the way that is written in the file."""
        node = self.node
        for step in path:
            below = node.value[step] if isinstance(step, int) else node.get(step)
            if below is None:
                break
            node = below
        return node


def _measured_hosts(cluster: ClusterSpec) -> list[str]:
    """Those that measurements need for themselves (a build host waits for its turn), as they are told apart."""
    names = dict.fromkeys((*cluster.engine_nodes, *cluster.load_clients))
    if cluster.transport == "ssh":
        return [f"{cluster.hosts[name].address}:{cluster.hosts[name].port}" for name in names]
    if os.environ.get(SHARE) == "1":  # then a machine may have several runs
        return [cluster.hosts[name].work_dir for name in names]
    return ["this machine"]

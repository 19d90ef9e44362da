"""Read the fleet file: the queue's database, the groups of hosts, and the nightly specs."""

from __future__ import annotations

import os
import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, field_validator

from perfrunner.errors import UsageError
from perfrunner.hosts.lock import SHARE
from perfrunner.paths import is_file, real_path, with_home
from perfrunner.spec.base import ListAsTuple, Piece, PlainName
from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.document import Node, Problems, load_document, plain
from perfrunner.spec.includes import shown
from perfrunner.spec.loader import load_cluster, note_errors
from perfrunner.spec.small import LOCAL
from perfrunner.spec.suggest import expected_name, nearest

Priority = Annotated[int, Field(ge=1, le=1_000_000)]
NORMAL_PRIORITY = 100
NIGHTLY_PRIORITY = 200  # after the jobs that somebody waits for
DEFAULT_DATABASE = "fleet.sqlite"


class GroupSpec(Piece):
    """A group of hosts, which one run uses at a time."""

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
    """The contents of a fleet file; paths are relative to the file."""

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
    """A group of hosts; `cluster` is a value of `perfrunner run --cluster`, and paths are absolute."""

    name: str
    cluster: str
    out: Path


@dataclass(frozen=True)
class Fleet:
    """A fleet file that was checked."""

    path: Path
    database: str
    groups: Mapping[str, Group]
    nightly: tuple[NightlySpec, ...]  # with absolute paths
    timezone: str | None
    store: str | None = None

    def chosen(self, names: Sequence[str]) -> list[Group]:
        """Return the groups of these names; without names, the only group. Raises UsageError."""
        if not names and len(self.groups) == 1:
            names = tuple(self.groups)
        if not names:
            raise UsageError(
                "no group was given", f"choose one or more: --group {' | '.join(self.groups)}"
            )
        for name in names:
            if name not in self.groups:
                raise UsageError(
                    f"--group {name}: {expected_name('a group of the fleet file', name, self.groups)}"
                )
        return [self.groups[name] for name in dict.fromkeys(names)]


def load_fleet(path: Path, *, hosts: bool = True) -> Fleet:
    """Read and check a fleet file.

    Raises UsageError if there is no such file, SpecError with one `file:line: field: ...` per problem.

    Without `hosts`, the cluster files of the groups are not read: a thousand of them take a second,
    and commands such as `status` do not need them.
    """
    if not path.exists():
        raise UsageError(
            f"{shown(path)}: no such fleet file",
            "write one (docs/how-to/fleet.md), or name it: --fleet FILE",
        )
    problems = Problems()
    node = load_document(path, shown(path), problems)
    problems.raise_if_any()
    if node is None:
        raise AssertionError("a file that cannot be read must add a problem")
    try:
        spec = FleetSpec.model_validate(plain(node))
    except ValidationError as error:
        note_errors(error, node, FleetSpec, problems)
        problems.raise_if_any()
        raise AssertionError("a validation error must add a problem") from error
    fleet = _Reader(real_path(path).parent, node, problems, hosts).fleet(path, spec)
    problems.raise_if_any()
    return fleet


@dataclass
class _Reader:
    """The checks that need other files: whether they exist, and whether two groups share a host."""

    directory: Path
    node: Node
    problems: Problems
    hosts: bool

    def fleet(self, path: Path, spec: FleetSpec) -> Fleet:
        groups = {name: self._group(name, group) for name, group in spec.groups.items()}
        self._check_disjoint(groups)
        nightly = tuple(self._nightly(i, entry, groups) for i, entry in enumerate(spec.nightly))
        self._check_unique(nightly)
        database = spec.database
        if "://" not in database:
            database = str(self._absolute(database))
        return Fleet(real_path(path), database, groups, nightly, spec.timezone, spec.store)

    def _group(self, name: str, spec: GroupSpec) -> Group:
        out = self._absolute(spec.out or f"results/{name}")
        if spec.cluster == LOCAL:
            return Group(name, LOCAL, out)
        cluster = self._absolute(spec.cluster)
        if not is_file(cluster):
            self.problems.add(
                self._at("groups", name, "cluster").mark,
                "",
                f"expected {LOCAL} or the path of a cluster file, got {spec.cluster}: no such file",
            )
        return Group(name, str(cluster), out)

    def _check_disjoint(self, groups: Mapping[str, Group]) -> None:
        """Check that no host and no results directory is in two groups, as each allows one run."""
        hosts: dict[str, str] = {}
        outs: dict[Path, str] = {}
        for group in groups.values():
            mark = self._at("groups", group.name).mark
            if (other := outs.setdefault(group.out, group.name)) != group.name:
                self.problems.add(
                    mark,
                    "out",
                    f"expected a directory that no other group uses, got that of {other}: {group.out}",
                )
            if not self.hosts or (group.cluster != LOCAL and not is_file(group.cluster)):
                continue
            for host in _measured_hosts(load_cluster(Path(group.cluster))):
                if (other := hosts.setdefault(host, group.name)) != group.name:
                    self.problems.add(
                        mark,
                        "cluster",
                        f"expected each host in only one group, but {host} is also in {other}",
                    )

    def _nightly(self, index: int, spec: NightlySpec, groups: Mapping[str, Group]) -> NightlySpec:
        path = self._absolute(spec.spec)
        if not is_file(path):
            self.problems.add(
                self._at("nightly", index, "spec").mark,
                "",
                f"expected the path of a spec, got {spec.spec}: no such file",
            )
        for position, name in enumerate(spec.groups):
            if name not in groups:
                self.problems.add(
                    self._at("nightly", index, "groups", position).mark,
                    "",
                    expected_name("a group of this file", name, groups),
                )
        return spec.model_copy(update={"spec": str(path)})

    def _check_unique(self, nightly: tuple[NightlySpec, ...]) -> None:
        """Check that no spec is listed twice for a group: they are the key of a nightly job."""
        seen: set[tuple[str, str]] = set()
        for index, entry in enumerate(nightly):
            for group in entry.groups:
                if (entry.spec, group) in seen:
                    self.problems.add(
                        self._at("nightly", index).mark,
                        "",
                        f"expected each spec once per group, got {Path(entry.spec).name} twice for {group}",
                    )
                seen.add((entry.spec, group))

    def _absolute(self, text: str) -> Path:
        return real_path(self.directory / with_home(text))

    def _at(self, *path: str | int) -> Node:
        """Return the node at `path`, or the deepest node above it that the file contains."""
        node = self.node
        for step in path:
            below = node.value[step] if isinstance(step, int) else node.get(step)
            if below is None:
                break
            node = below
        return node


def _measured_hosts(cluster: ClusterSpec) -> list[str]:
    """Return the identities of the hosts that a measurement needs exclusively, so no build host."""
    names = dict.fromkeys((*cluster.engine_nodes, *cluster.load_clients))
    if cluster.transport == "ssh":
        # A port that the cluster file leaves to ssh_config counts as 22.
        return [f"{cluster.hosts[name].address}:{cluster.hosts[name].port or 22}" for name in names]
    if os.environ.get(SHARE) == "1":  # several runs may share this machine
        return [cluster.hosts[name].work_dir for name in names]
    return ["this machine"]

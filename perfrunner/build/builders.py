"""Make builds on this machine, or on the host that the cluster file names.

with open_builder(cluster, cache_dir, run_id) as builder:
    artifact = builder.build(variant, source_dir, progress=print)       # stored in the local cache
    other = builder.relink(artifact, seed=1, programs=("kv_engine",))
"""

from __future__ import annotations

import contextlib
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from perfrunner.build.artifact import Artifact
from perfrunner.build.builder import build_variant
from perfrunner.build.layout import relink
from perfrunner.build.tools import Progress
from perfrunner.paths import with_home

if TYPE_CHECKING:
    from perfrunner.hosts import Facts, Host
    from perfrunner.spec.cluster import ClusterSpec
    from perfrunner.spec.variant import Variant


@dataclass(frozen=True)
class Platform:
    """The platform that programs are built for.

    `where` is "here" or "on HOST". `libc` is such as "glibc 2.36", empty for others. `bits` is the size of a
    program's addresses: a 64-bit kernel may have a 32-bit system.
    """

    system: str
    machine: str
    libc: str
    where: str = "here"
    bits: int = 64


def platform_here() -> Platform:
    """Return the platform of this machine."""
    name, version = platform.libc_ver()
    libc = f"{name} {version}" if name == "glibc" else ""
    bits = 8 * struct.calcsize("P")
    return Platform(platform.system(), platform.machine(), libc, bits=bits)


def platform_of(name: str, facts: Facts) -> Platform:
    """Return the platform of a host from its facts."""
    machine, libc, bits = (facts.get(key) for key in ("machine", "glibc", "bits"))
    return Platform(
        "Linux",
        str(machine or ""),
        str(libc or ""),
        where=f"on {name}",
        bits=bits if isinstance(bits, int) else 64,
    )


class Builder(Protocol):
    """A place to build. Methods raise BuildError, and HostError if a host is involved."""

    @property
    def platform(self) -> Platform: ...

    def build(
        self,
        variant: Variant,
        source_dir: Path,
        progress: Progress | None = None,
        programs: Sequence[str] = (),
    ) -> Artifact:
        """Build a variant as perfrunner.build.builder.build_variant does."""
        ...

    def relink(
        self,
        artifact: Artifact,
        seed: int,
        programs: Sequence[str],
        waiting: Progress | None = None,
    ) -> Artifact:
        """Relink an artifact of this builder as perfrunner.build.layout.relink does.

        `waiting` receives reasons for waiting.
        """
        ...

    def with_hosts(self, hosts: Mapping[str, Host]) -> Builder:
        """Return this builder for a run that has itself locked `hosts` (by their names in the cluster file)."""
        ...


@dataclass(frozen=True)
class BuildsHere:
    """A builder on this machine."""

    cache_dir: Path

    @property
    def platform(self) -> Platform:
        """The platform of this machine."""
        return platform_here()

    def build(
        self,
        variant: Variant,
        source_dir: Path,
        progress: Progress | None = None,
        programs: Sequence[str] = (),
    ) -> Artifact:
        """Build a variant into the local cache."""
        return build_variant(variant, source_dir, self.cache_dir, progress, programs)

    def relink(
        self,
        artifact: Artifact,
        seed: int,
        programs: Sequence[str],
        waiting: Progress | None = None,
    ) -> Artifact:
        """Relink an artifact. It never waits."""
        del waiting
        return relink(artifact, seed, programs)

    def with_hosts(self, hosts: Mapping[str, Host]) -> BuildsHere:
        """Return this builder, which needs no hosts."""
        del hosts
        return self


@contextlib.contextmanager
def open_builder(cluster: ClusterSpec, cache_dir: Path, run_id: str) -> Iterator[Builder]:
    """Open the cluster's builder. Raises HostError if its build host cannot be used."""
    name = cluster.build_host
    if name is None:
        yield BuildsHere(cache_dir)
        return
    # Imported late: local builds do not need these modules.
    from perfrunner.build.remote import BuildHost
    from perfrunner.errors import HostError
    from perfrunner.hosts import open_host
    from perfrunner.hosts.facts import work_dir_problem

    with open_host(cluster.hosts[name], cluster.transport, name=name, run_id=run_id) as host:
        facts = host.facts()
        if problem := work_dir_problem(facts):
            raise HostError(f"{name}: {problem[0]}", hint=problem[1])
        yield BuildHost(host, with_home(cache_dir).absolute(), platform_of(name, facts))

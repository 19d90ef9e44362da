"""Where builds are made: on this machine, or on a host that the cluster file names.

with open_builder(cluster, cache_dir, run_id) as builder:
    artifact = builder.build(variant, source_dir, progress=print)       # in the cache here, either way
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
from perfrunner.build.output import Progress

if TYPE_CHECKING:
    from perfrunner.cluster import Facts, Host
    from perfrunner.spec.cluster import ClusterSpec
    from perfrunner.spec.variant import Variant


@dataclass(frozen=True)
class Platform:
    """What programs are built for. `where`: "here" or "on HOST"; `libc` such as "glibc 2.36", empty for another.

    `bits` of a program's addresses: a kernel of 64 may have a system of 32.
    """

    system: str
    machine: str
    libc: str
    where: str = "here"
    bits: int = 64


def platform_here() -> Platform:
    """Of this machine."""
    name, version = platform.libc_ver()
    libc = f"{name} {version}" if name == "glibc" else ""
    bits = 8 * struct.calcsize("P")
    return Platform(platform.system(), platform.machine(), libc, bits=bits)


def platform_of(name: str, facts: Facts) -> Platform:
    """Of a host, from what it says of itself."""
    machine, libc, bits = (facts.get(key) for key in ("machine", "glibc", "bits"))
    return Platform(
        "Linux",
        str(machine or ""),
        str(libc or ""),
        where=f"on {name}",
        bits=bits if isinstance(bits, int) else 64,
    )


class Builder(Protocol):
    """Methods raise BuildError, and HostError where a host has to do with it."""

    @property
    def platform(self) -> Platform: ...

    def build(
        self,
        variant: Variant,
        source_dir: Path,
        progress: Progress | None = None,
        programs: Sequence[str] = (),
    ) -> Artifact:
        """As perfrunner.build.build_variant."""
        ...

    def relink(
        self,
        artifact: Artifact,
        seed: int,
        programs: Sequence[str],
        waiting: Progress | None = None,
    ) -> Artifact:
        """As perfrunner.build.relink, for an artifact of this builder. `waiting` hears for whom or what it waits."""
        ...

    def beside(self, hosts: Mapping[str, Host]) -> Builder:
        """This builder for a run that has locked `hosts` (by their names in the cluster file) itself."""
        ...


@dataclass(frozen=True)
class BuildsHere:
    """This machine."""

    cache_dir: Path

    @property
    def platform(self) -> Platform:
        return platform_here()

    def build(
        self,
        variant: Variant,
        source_dir: Path,
        progress: Progress | None = None,
        programs: Sequence[str] = (),
    ) -> Artifact:
        return build_variant(variant, source_dir, self.cache_dir, progress, programs)

    def relink(
        self,
        artifact: Artifact,
        seed: int,
        programs: Sequence[str],
        waiting: Progress | None = None,
    ) -> Artifact:
        del waiting
        return relink(artifact, seed, programs)

    def beside(self, hosts: Mapping[str, Host]) -> BuildsHere:
        del hosts
        return self


@contextlib.contextmanager
def open_builder(cluster: ClusterSpec, cache_dir: Path, run_id: str) -> Iterator[Builder]:
    """The cluster's. HostError when its build host cannot be used."""
    name = cluster.build_host
    if name is None:
        yield BuildsHere(cache_dir)
        return
    # Imported late: who builds here needs none of it.
    from perfrunner.build.remote import BuildHost
    from perfrunner.cluster import open_host

    with open_host(cluster.hosts[name], cluster.transport, name=name, run_id=run_id) as host:
        yield BuildHost(host, cache_dir.expanduser().absolute(), platform_of(name, host.facts()))

"""Choose the CPUs of the engine and of the load: disjoint sets, the same for every variant.

`auto` splits the host's CPUs as reported by hwloc (`kvctl topology` of the artifact) into whole cores, neighbours in
package and cache together; the engine gets the first half. Nothing is pinned on a host with one CPU, or if engine and
clients run on different hosts. Stand-alone programs are not pinned, because the number of CPUs is part of what they
measure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from perfrunner.errors import HostError, TrialError
from perfrunner.hosts.transport import Transport
from perfrunner.spec.cpus import ANY, AUTO, cpu_list, cpu_numbers


@dataclass(frozen=True)
class CpuSets:
    """The CPUs of engine and clients, as kernel lists (`0-3,8`); empty: not pinned."""

    engine: str = ""
    client: str = ""


@dataclass(frozen=True, order=True)
class Cpu:
    """The position of a CPU, ordered so that neighbours in a sorted list are neighbours in the machine."""

    package: int
    l3: int
    core: int
    os_index: int


def pinned(argv: Sequence[str], cpus: str) -> list[str]:
    """Return the command pinned to `cpus`; taskset replaces itself, so the pid is that of the command."""
    return [*(("taskset", "-c", cpus) if cpus else ()), *argv]


def choose(engine: str, client: str, topology: Sequence[Cpu], *, together: bool) -> CpuSets:
    """Return the CPU sets for the values of the spec.

    topology: the usable CPUs of the engine's host.
    together: engine and clients share that host.

    Raises TrialError if the spec names a CPU that is not usable.
    """
    allowed = {cpu.os_index for cpu in topology}
    wanted = [("engine", engine)] + ([("client", client)] if together else [])
    for name, text in wanted:
        if text not in (AUTO, ANY) and not set(cpu_numbers(text)) <= allowed:
            raise TrialError(
                f"{name}.cpus is {text}, but only CPUs {cpu_list(sorted(allowed))} are available"
            )
    if not together:
        return CpuSets(_named(engine), _named(client))
    if engine == AUTO and client == AUTO:
        first, second = _halves(topology)
        return CpuSets(cpu_list(first), cpu_list(second)) if second else CpuSets()
    return CpuSets(
        _rest(allowed, client) if engine == AUTO else _named(engine),
        _rest(allowed, engine) if client == AUTO else _named(client),
    )


def read_topology(host: Transport, artifact: str) -> list[Cpu]:
    """Return the CPUs that our processes on the host may use. Raises HostError if kvctl reports none."""
    output = host.run([f"{artifact}/bin/kvctl", "topology"]).stdout
    try:
        return sorted(
            Cpu(
                package=int(cpu["package"]),
                l3=-1 if cpu["l3"] is None else int(cpu["l3"]),
                core=int(cpu["core"]),
                os_index=int(cpu["os_index"]),
            )
            for cpu in json.loads(output)["cpus"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(f"{host.name}: kvctl topology printed no CPUs: {error!r}") from None


def _named(text: str) -> str:
    return "" if text in (AUTO, ANY) else text


def _rest(allowed: set[int], other: str) -> str:
    """Return the CPUs outside another set; empty (not pinned) if that set is not pinned or has all CPUs."""
    if other in (AUTO, ANY):
        return ""
    left = allowed - set(cpu_numbers(other))
    return cpu_list(sorted(left)) if left else ""


def _halves(topology: Sequence[Cpu]) -> tuple[list[int], list[int]]:
    """Split the CPUs into halves of whole cores; a single core is split by its threads."""
    ordered = sorted(topology)
    cores: dict[tuple[int, int], list[int]] = {}
    for cpu in ordered:
        cores.setdefault((cpu.package, cpu.core), []).append(cpu.os_index)
    units = list(cores.values()) if len(cores) > 1 else [[cpu.os_index] for cpu in ordered]
    if len(units) < 2:
        return [], []
    cut = len(units) // 2
    return [n for unit in units[:cut] for n in unit], [n for unit in units[cut:] for n in unit]

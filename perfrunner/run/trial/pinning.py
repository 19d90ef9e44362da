"""Which CPUs the engine's threads run on and which the load's: disjoint sets, the same for every arm, recorded.

`auto` splits the host's CPUs as hwloc sees them (`kvctl topology` of the artifact): whole cores, neighbours in package
and cache together, the engine has the first half. A host with one CPU, or one whose engine and clients are apart, is
left as it is. A program that needs no server runs where the kernel puts it: how many CPUs it sees is what it measures.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from perfrunner.cluster.transport import Transport
from perfrunner.errors import HostError, TrialError
from perfrunner.spec.cpus import ANY, AUTO, cpu_list, cpu_numbers


@dataclass(frozen=True)
class CpuSets:
    """As the kernel writes lists (`0-3,8`); empty: wherever the kernel likes."""

    engine: str = ""
    client: str = ""


@dataclass(frozen=True, order=True)
class Cpu:
    """Where a CPU sits. Ordered so that neighbours in the list are neighbours in the machine."""

    package: int
    l3: int
    core: int
    os_index: int


def pinned(argv: Sequence[str], cpus: str) -> list[str]:
    """The command, kept to `cpus` (taskset replaces itself by it, so the pid is the command's)."""
    return [*(("taskset", "-c", cpus) if cpus else ()), *argv]


def choose(engine: str, client: str, topology: Sequence[Cpu], *, together: bool) -> CpuSets:
    """From what the spec asks for; `topology` are the CPUs of the engine's host that we may use.

    `together`: engine and clients share that host. TrialError when the spec names a CPU that it does not have.
    """
    allowed = {cpu.os_index for cpu in topology}
    wanted = [("engine", engine)] + ([("client", client)] if together else [])
    for name, text in wanted:
        if text not in (AUTO, ANY) and not set(cpu_numbers(text)) <= allowed:
            raise TrialError(
                f"{name}.cpus is {text}, but the host lets us use {cpu_list(sorted(allowed))}"
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
    """The CPUs that our processes on the host may use. HostError when the program says nothing of use."""
    said = host.run([f"{artifact}/bin/kvctl", "topology"]).stdout
    try:
        return sorted(
            Cpu(
                package=int(cpu["package"]),
                l3=-1 if cpu["l3"] is None else int(cpu["l3"]),
                core=int(cpu["core"]),
                os_index=int(cpu["os_index"]),
            )
            for cpu in json.loads(said)["cpus"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(f"{host.name}: kvctl topology printed no CPUs: {error!r}") from None


def _named(text: str) -> str:
    return "" if text in (AUTO, ANY) else text


def _rest(allowed: set[int], other: str) -> str:
    """What another set leaves; all of it where that one is not pinned or takes everything."""
    if other in (AUTO, ANY):
        return ""
    left = allowed - set(cpu_numbers(other))
    return cpu_list(sorted(left)) if left else ""


def _halves(topology: Sequence[Cpu]) -> tuple[list[int], list[int]]:
    """By whole cores, so that no core has threads in both; by CPUs where there is one core only."""
    ordered = sorted(topology)
    cores: dict[tuple[int, int], list[int]] = {}
    for cpu in ordered:
        cores.setdefault((cpu.package, cpu.core), []).append(cpu.os_index)
    units = list(cores.values()) if len(cores) > 1 else [[cpu.os_index] for cpu in ordered]
    if len(units) < 2:
        return [], []
    cut = len(units) // 2
    return [n for unit in units[:cut] for n in unit], [n for unit in units[cut:] for n in unit]

"""The examination behind `perfrunner doctor`: the tools where builds are made, the hosts, and whether they suit a spec.

Nothing is changed or measured; of each host only its work directory is made, as a run would (a build host gets the
builder, which says what tools it finds).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from perfrunner.build.asking import tools_on
from perfrunner.build.place import Platform, platform_here, platform_of
from perfrunner.build.toolchain import build_environment, find_toolchain, require_cargo
from perfrunner.cluster import Host, open_host
from perfrunner.errors import PerfrunnerError
from perfrunner.measure.perf import check_perf
from perfrunner.run.preflight.cpus import cpu_findings
from perfrunner.run.preflight.describe import describe
from perfrunner.run.preflight.health import Finding, host_findings, watch
from perfrunner.run.preflight.pairs import pair_findings
from perfrunner.run.preflight.sdk import SUBJECT as SDK
from perfrunner.run.preflight.sdk import sdk_findings
from perfrunner.run.trial.profiles import cells_to_profile
from perfrunner.spec.allocator import SYSTEM
from perfrunner.spec.cluster import ClusterSpec
from perfrunner.spec.model import Spec

CONTROLLER = "this machine"
ANY_CRATE = "jemalloc"
MOST_OF_MEMORY = 0.8  # that the bucket's quota may take


def examine(cluster: ClusterSpec, spec: Spec | None) -> Iterator[Finding]:
    """Each finding as it is made; a host takes about a second."""
    built_for: Platform | None = None
    if cluster.build_host is None:
        yield from _tools(spec)
        built_for = platform_here()
    else:
        found, built_for = _build_host(cluster, cluster.build_host, spec)
        yield from found
    facts: dict[str, Mapping[str, object]] = {}
    machines: set[str] = set()  # several hosts of a cluster may be one
    with contextlib.ExitStack() as stack:
        hosts: dict[str, Host] = {}
        for name in dict.fromkeys((*cluster.engine_nodes, *cluster.load_clients)):
            try:
                spec_of = cluster.hosts[name]
                host = stack.enter_context(
                    open_host(spec_of, cluster.transport, name=name, run_id="doctor")
                )
                yield Finding(name, "reached", "ok", f"{host.work_dir} can be written")
                boot_id = host.boot_id()
                yield from _host(host, name, built_for, machine=boot_id not in machines)
                machines.add(boot_id)
                facts[name] = host.facts()
                hosts[name] = host
            except PerfrunnerError as error:
                yield Finding(name, "reached", "problem", error.message, error.hint or "")
        yield from _or_why_not(cluster.name, "network", pair_findings(cluster, hosts))
        if spec is not None:
            yield from _or_why_not(cluster.name, SDK, sdk_findings(spec, hosts))
            yield from _profiling(spec, hosts)
    if spec is not None and facts.keys() >= set(cluster.engine_nodes):
        yield from _suits(spec, facts)


def _or_why_not(place: str, subject: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Those, and a problem of that subject in place of what could not be looked at."""
    try:
        yield from findings
    except PerfrunnerError as error:
        yield Finding(place, subject, "problem", error.message, error.hint or "")


def _tools(spec: Spec | None) -> Iterator[Finding]:
    env = build_environment()
    try:
        tools = find_toolchain(env)
        text = f"{tools.compiler}, cmake {tools.cmake_version}, {tools.linker}"
        yield Finding(CONTROLLER, "build tools", "ok", text)
    except PerfrunnerError as error:
        yield Finding(CONTROLLER, "build tools", "problem", error.message, error.hint or "")
    allocator = _crate(spec)
    try:
        require_cargo(allocator or ANY_CRATE, env)
    except PerfrunnerError as error:
        yield _cargo(CONTROLLER, allocator, error.message, error.hint or "")
    else:
        yield _cargo(CONTROLLER, allocator, "", "")


def _build_host(
    cluster: ClusterSpec, name: str, spec: Spec | None
) -> tuple[list[Finding], Platform | None]:
    """What it finds of the tools, and what it builds for (None: it cannot be asked)."""
    found: list[Finding] = []
    built_for: Platform | None = None
    try:
        spec_of = cluster.hosts[name]
        with open_host(spec_of, cluster.transport, name=name, run_id="doctor") as host:
            built_for = platform_of(name, host.facts())
            allocator = _crate(spec)
            tools = tools_on(host, allocator or ANY_CRATE)
        text = f"{tools['compiler']}, cmake {tools['cmake']}, {tools['linker']}"
        found.append(Finding(name, "build tools", "ok", text))
        found.append(_cargo(name, allocator, tools["cargo"], tools["hint"] or ""))
    except PerfrunnerError as error:
        found.append(Finding(name, "build tools", "problem", error.message, error.hint or ""))
    return found, built_for


def _crate(spec: Spec | None) -> str:
    """An allocator of the spec that cargo builds; empty when it has none."""
    wanted = [] if spec is None else [v.allocator.name for v in spec.variants.values()]
    return min((name for name in wanted if name != SYSTEM), default="")


def _cargo(place: str, allocator: str, wrong: str, remedy: str) -> Finding:
    if not wrong:
        return Finding(place, "cargo", "ok", "can build the allocators")
    return Finding(place, "cargo", "problem" if allocator else "warning", wrong, remedy)


def _host(host: Host, name: str, built_for: Platform | None, *, machine: bool) -> Iterator[Finding]:
    try:
        host.lock(machine=machine)
    except PerfrunnerError as error:
        yield Finding(name, "free", "problem", error.message, error.hint or "")
    else:
        yield Finding(name, "free", "ok", "no other run measures there")
        if left := host.processes():
            text = f"an earlier run left {len(left)} processes or their entries"
            yield Finding(name, "leftovers", "warning", text, "the next run stops them")
    yield from host_findings(name, host.facts(), built_for)
    yield from watch(host, name)


def _profiling(spec: Spec, hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """Where a workload asks for profiles: whether perf may record on the engine nodes."""
    cells = cells_to_profile(spec)
    for name in spec.cluster.engine_nodes if cells else ():
        if name not in hosts:
            continue
        host = hosts[name]
        try:
            event = check_perf(host.transport, host.work_dir, cells[0][0])
            yield Finding(name, "perf", "ok", f"records {event}")
        except PerfrunnerError as error:
            text = error.message.removeprefix(f"{host.name}: ")
            yield Finding(name, "perf", "problem", text, error.hint or "")


def _suits(spec: Spec, facts: Mapping[str, Mapping[str, object]]) -> Iterator[Finding]:
    """What only this spec needs of its hosts."""
    place = f"spec {spec.name}"
    yield from cpu_findings(spec, facts)
    found = describe(spec, {}, facts)
    for name, holds in found.facts["preconditions"].items():
        if holds:
            yield Finding(place, name, "ok", "holds")
    for warned in found.warnings:
        yield Finding(place, "preconditions", "warning", warned.message, warned.remedy)
    for name in spec.cluster.engine_nodes:
        memory = facts[name].get("memory_bytes")
        quota = spec.engine.quota_mb * 2**20
        if isinstance(memory, int):
            text = f"bucket quota {quota / 1e9:.1f} GB of {memory / 1e9:.1f} GB on {name}"
            if quota > MOST_OF_MEMORY * memory:
                yield Finding(place, "memory", "warning", text, "--set engine.quota_mb=…")
            else:
                yield Finding(place, "memory", "ok", text)

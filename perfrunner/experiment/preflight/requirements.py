"""Compare the hosts with what a spec requires: CPUs, free ports, perf, the Couchbase SDK, preconditions.

`describe` records the facts of the hosts and their changes since the first trials.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfrunner.domain import MEASURED_PRECONDITIONS
from perfrunner.errors import HostError, UsageError, require_sdk
from perfrunner.experiment.events import Warned
from perfrunner.experiment.plan import profiled_cases
from perfrunner.experiment.preflight.health import Finding, refuse
from perfrunner.experiment.session import CHANGED
from perfrunner.experiment.trial.outcome import changed_facts
from perfrunner.experiment.trial.placement import Placement, client_python
from perfrunner.hosts import Host, scripts
from perfrunner.hosts.facts import usable_cpus
from perfrunner.measure.cpu_profile import check_perf
from perfrunner.spec.model import Spec
from perfrunner.spec.units import ANY, AUTO, cpu_numbers
from perfrunner.spec.workloads import SdkSpec, ToolWorkload

CPUS_SUBJECT = "named CPUs"


def require_cpus(spec: Spec, facts: Mapping[str, Mapping[str, object]]) -> None:
    """Raise HostError for the first host that lacks a CPU named in the spec."""
    refuse(cpu_findings(spec, facts))


def cpu_findings(spec: Spec, facts: Mapping[str, Mapping[str, object]]) -> Iterator[Finding]:
    """Yield a finding for each host and CPU set named in the spec.

    `facts` are by host. Hosts that do not report their CPUs are skipped.
    """
    roles = (
        ("engine.cpus", spec.engine.cpus, spec.cluster.engine_nodes),
        ("client.cpus", spec.client.cpus, spec.cluster.load_clients),
    )
    for key, cpus, names in roles:
        for name in names if cpus not in (AUTO, ANY) else ():
            allowed = facts.get(name, {}).get("cpus_allowed")
            if not isinstance(allowed, str):
                continue
            if set(cpu_numbers(cpus)) <= set(cpu_numbers(allowed)):
                yield Finding(name, CPUS_SUBJECT, "ok", f"{key} {cpus} of {allowed}")
            else:
                text = f"{key} is {cpus}, but only CPUs {allowed} are available"
                yield Finding(
                    name,
                    CPUS_SUBJECT,
                    "problem",
                    text,
                    f"--set {key}=auto, or name a subset of these",
                )


def require_ports(spec: Spec, hosts: Mapping[str, Host]) -> None:
    """Raise HostError for the first engine node where a port named in the spec is in use."""
    wanted = [str(port) for port in named_ports(spec)]
    for name in spec.cluster.engine_nodes if wanted else ():
        argv = ["bash", "-c", scripts.BUSY_PORTS, "bash", *wanted]
        if taken := hosts[name].transport.run(argv).stdout.split():
            raise HostError(
                f"{name}: port {taken[0]} is in use", "use any free port with --set engine.port=0"
            )


def named_ports(spec: Spec) -> range:
    """Return the ports needed by the engines that are alive at the same time, starting with `engine.port`.

    The range is empty if the host chooses the ports.
    """
    first = spec.engine.port
    servers = [n for n, load in spec.workloads.items() if not isinstance(load, ToolWorkload)]
    if first == 0 or not servers:
        return range(0)
    if all(spec.schedule_of(name) == "sequential" for name in servers):
        return range(first, first + 1)
    return range(
        first, first + min(len(spec.variants), spec.limits.group_size or len(spec.variants))
    )


SDK_SUBJECT = "couchbase SDK"
LEAST_PYTHON = (3, 10)
TIMEOUT_S = 30.0
_ASK = """\
import json, platform, sys
import couchbase
print(json.dumps([list(sys.version_info[:2]), platform.python_version(), couchbase.__version__]))
"""


def needs_sdk(spec: Spec) -> bool:
    """Return whether a workload or the verification uses the Couchbase SDK."""
    return spec.engine.verify == "sdk" or any(
        isinstance(workload, SdkSpec) for workload in spec.workloads.values()
    )


def require_perf(spec: Spec, engine_nodes: Sequence[Placement]) -> None:
    """Raise HostError, with a remedy, if a workload requests CPU profiles and perf cannot record on its host.

    Programs without a server run on the first engine node.
    """
    workloads = [workload for workload, _ in profiled_cases(spec)]
    if not workloads:
        return
    on_engines = [w for w in workloads if not isinstance(spec.workloads[w], ToolWorkload)]
    for placement in engine_nodes if on_engines else engine_nodes[:1]:
        check_perf(placement.host, placement.run_dir, (on_engines or workloads)[0])


def require_sdk_here(spec: Spec) -> None:
    """Raise UsageError if clients use the interpreter of perfrunner and it lacks the SDK."""
    if needs_sdk(spec) and any(
        client_python(spec, name) == sys.executable for name in spec.cluster.load_clients
    ):
        require_sdk()


def require_sdk_there(spec: Spec, hosts: Mapping[str, Host]) -> None:
    """Raise HostError for the first load client that lacks the SDK."""
    refuse(sdk_findings(spec, hosts))


def sdk_findings(spec: Spec, hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """Yield a finding for each open load client, if the spec needs the SDK."""
    if not needs_sdk(spec):
        return
    for name in spec.cluster.load_clients:
        if name in hosts:
            yield _finding(hosts[name], name, client_python(spec, name))


def _finding(host: Host, name: str, python: str) -> Finding:
    done = host.transport.run([python, "-c", _ASK], timeout=TIMEOUT_S, check=False)
    try:
        version, shown, sdk = json.loads(done.stdout) if done.exit == 0 else (None, "", "")
    except ValueError:
        version, shown, sdk = None, "", ""
    if version is None:
        output = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = output[-1] if output else f"exit {done.exit}"
        text = f"{python} cannot import couchbase: {why}"
        return Finding(name, SDK_SUBJECT, "problem", text, _remedy(python))
    if tuple(version) < LEAST_PYTHON:
        wanted = ".".join(map(str, LEAST_PYTHON))
        text = f"{python} is Python {shown}; the SDK needs {wanted} or later"
        return Finding(name, SDK_SUBJECT, "problem", text, _remedy(python))
    return Finding(name, SDK_SUBJECT, "ok", f"couchbase {sdk} for Python {shown}")


def _remedy(python: str) -> str:
    if python == sys.executable:
        return "pip install 'perfrunner[sdk]'"
    return (
        "on that host: python3 -m venv DIR && DIR/bin/pip install couchbase;"
        " then set client: {python: DIR/bin/python} in the spec, or use --set client.python=DIR/bin/python"
    )


THP_REMEDY = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
_FEWEST_CPUS = {"two_cores": 2, "three_cores": 3}

TOOLS_BUILDS = "tools_builds"  # fact: build ids of the load tools and samplers, in order of use

SERVERS = "servers"  # fact: names of the programs of other servers, with their content, by variant

HostFacts = Mapping[str, Mapping[str, object]]  # by host name


@dataclass(frozen=True)
class Description:
    """The description of the hosts at the start of a run.

    `facts` replace those of the experiment; `changes` happened since its previous trials.
    """

    facts: dict[str, Any]
    changes: list[str]
    warnings: list[Warned]


def describe(spec: Spec, recorded: Mapping[str, Any], hosts: HostFacts, trials: int) -> Description:
    """Describe the hosts and compare them with the recorded facts.

    The fact "hosts" is from the first run. A resumed run on changed hosts adds "latest_hosts". `trials`: the number of
    stored trials.
    """
    facts = dict(recorded)
    now = {name: dict(host) for name, host in hosts.items()}
    before = facts.get("latest_hosts") or facts.setdefault("hosts", now)
    facts.setdefault("controller", {"host": platform.node(), "python": platform.python_version()})
    changes = [
        f"{name}: {change}"
        for name in now
        for change in changed_facts(before.get(name, {}), now[name])
    ]
    warnings = []
    if changes:
        note_changes(facts, now, changes, trials)
        warnings.append(
            Warned(f"the hosts changed since the previous trials: {'; '.join(changes)}")
        )
    engine_facts = [now[name] for name in spec.cluster.engine_nodes]
    facts["preconditions"] = check_preconditions(spec.preconditions, engine_facts)
    for name, holds in facts["preconditions"].items():
        if not holds:
            state = "cannot be checked" if holds is None else "does not hold"
            warnings.append(Warned(f"precondition {name} {state} on the engine node"))
    if idle := idle_metadata_thp(spec, engine_facts):
        mode = engine_facts[0].get("thp_enabled")
        text = f"metadata_thp of {', '.join(idle)} has no effect: huge pages are in mode {mode}"
        warnings.append(Warned(text, THP_REMEDY))
    return Description(facts, changes, warnings)


def note_changes(
    facts: dict[str, Any], now: HostFacts, changes: Sequence[str], trials: int
) -> None:
    """Record in the facts of the experiment that the hosts changed after `trials` stored trials."""
    facts["latest_hosts"] = {name: dict(host) for name, host in now.items()}
    facts["changes"] = [*facts.get("changes", []), *changes]
    facts[CHANGED] = [*facts.get(CHANGED, []), trials]


def note_tools(facts: dict[str, Any], build_id: str) -> str | None:
    """Record the build of the load tools in the facts; return a warning if it differs from the previous one."""
    before = list(facts.get(TOOLS_BUILDS, ()))
    if before[-1:] != [build_id]:
        facts[TOOLS_BUILDS] = [*before, build_id]
    if not before or before[-1] == build_id:
        return None
    return f"the build of the load tools changed from {before[-1]} to {build_id}"


def note_servers(facts: dict[str, Any], build_ids: Mapping[str, str]) -> None:
    """Record the programs of variants that are other servers; raise UsageError if one has changed since."""
    before = facts.setdefault(SERVERS, dict(build_ids))
    for name, build_id in build_ids.items():
        if before.get(name, build_id) != build_id:
            raise UsageError(
                f"variant {name}: its program or its preloaded library has changed since the run began"
                f" ({before[name]}, now {build_id})",
                "put it back, or start a new run without --resume",
            )


def check_preconditions(
    names: Sequence[str], engine_facts: Sequence[Mapping[str, object]]
) -> dict[str, bool | None]:
    """Return whether each named precondition holds on every engine node; None if a host does not report it.

    Preconditions that only a measurement can show are omitted here; the report checks them.
    """
    return {
        name: _holds(name, engine_facts) for name in names if name not in MEASURED_PRECONDITIONS
    }


def idle_metadata_thp(spec: Spec, engine_facts: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the variants whose metadata_thp has no effect: jemalloc needs the system's mode to be `madvise`."""
    if all(facts.get("thp_enabled", "madvise") == "madvise" for facts in engine_facts):
        return []
    return [
        name
        for name, variant in spec.variants.items()
        if variant.allocator.options.get("metadata_thp", "disabled") != "disabled"
    ]


def _holds(name: str, engine_facts: Sequence[Mapping[str, object]]) -> bool | None:
    if name == "thp_madvise":
        values = [facts.get("thp_enabled") for facts in engine_facts]
        return None if None in values else all(value == "madvise" for value in values)
    if name in _FEWEST_CPUS:
        counts = [usable_cpus(facts) for facts in engine_facts]
        known = [count for count in counts if count is not None]
        enough = all(count >= _FEWEST_CPUS[name] for count in known)
        return enough if len(known) == len(counts) else None
    if name == "two_caches":
        domains = [facts.get("l3_domains") for facts in engine_facts]
        shown = [caches for caches in domains if isinstance(caches, list)]
        return all(len(caches) >= 2 for caches in shown) if len(shown) == len(domains) else None
    raise ValueError(f"precondition {name} is not implemented")

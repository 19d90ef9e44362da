"""Check that the hosts have what a spec requires: CPUs, free ports, perf and the Couchbase SDK."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence

from perfrunner.errors import HostError, require_sdk
from perfrunner.experiment.plan import profiled_cases
from perfrunner.experiment.preflight.health import Finding, refuse
from perfrunner.experiment.trial.placement import Placement, client_python
from perfrunner.hosts import Host, scripts
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

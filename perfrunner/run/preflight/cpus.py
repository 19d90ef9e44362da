"""Whether we may use the CPUs that the spec names, on every host that it names them for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perfrunner.errors import HostError
from perfrunner.run.preflight.health import Finding
from perfrunner.spec.cpus import ANY, AUTO, cpu_numbers
from perfrunner.spec.model import Spec

SUBJECT = "named CPUs"


def require_cpus(spec: Spec, facts: Mapping[str, Mapping[str, object]]) -> None:
    """HostError names the first host that lacks one, before anything is built for it."""
    for finding in cpu_findings(spec, facts):
        if finding.grade == "problem":
            raise HostError(f"{finding.place}: {finding.text}", finding.remedy)


def cpu_findings(spec: Spec, facts: Mapping[str, Mapping[str, object]]) -> Iterator[Finding]:
    """One for each host and set that the spec names; `facts` are by host. What a host does not show is not judged."""
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
                yield Finding(name, SUBJECT, "ok", f"{key} {cpus} of {allowed}")
            else:
                text = f"{key} is {cpus}, but we may use {allowed} there"
                yield Finding(
                    name, SUBJECT, "problem", text, f"--set {key}=auto, or a part of these"
                )

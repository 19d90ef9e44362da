"""Whether the load clients have the Couchbase SDK, where a spec needs it: for a workload, or to verify copies."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping

from perfrunner.cluster import Host
from perfrunner.cluster.extra import require_sdk
from perfrunner.errors import HostError
from perfrunner.run.preflight.health import Finding
from perfrunner.run.trial.interpreter import client_python
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import SdkSpec

SUBJECT = "couchbase SDK"
LEAST_PYTHON = (3, 10)
TIMEOUT_S = 30.0
_ASK = """\
import json, platform, sys
import couchbase
print(json.dumps([list(sys.version_info[:2]), platform.python_version(), couchbase.__version__]))
"""


def needs_sdk(spec: Spec) -> bool:
    return spec.engine.verify == "sdk" or any(
        isinstance(workload, SdkSpec) for workload in spec.workloads.values()
    )


def require_sdk_here(spec: Spec) -> None:
    """UsageError, before anything is begun, where our own interpreter is to run it and has no SDK."""
    if needs_sdk(spec) and any(
        client_python(spec, name) == sys.executable for name in spec.cluster.load_clients
    ):
        require_sdk()


def require_sdk_there(spec: Spec, hosts: Mapping[str, Host]) -> None:
    """HostError names the first load client that lacks it."""
    for finding in sdk_findings(spec, hosts):
        if finding.grade == "problem":
            raise HostError(f"{finding.place}: {finding.text}", finding.remedy)


def sdk_findings(spec: Spec, hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """One for each load client that is open; none where the spec does without."""
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
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        why = said[-1] if said else f"exit {done.exit}"
        text = f"{python} cannot import couchbase: {why}"
        return Finding(name, SUBJECT, "problem", text, _remedy(python))
    if tuple(version) < LEAST_PYTHON:
        wanted = ".".join(map(str, LEAST_PYTHON))
        text = f"{python} is Python {shown}; the SDK's programs need {wanted} or later"
        return Finding(name, SUBJECT, "problem", text, _remedy(python))
    return Finding(name, SUBJECT, "ok", f"couchbase {sdk} of Python {shown}")


def _remedy(python: str) -> str:
    if python == sys.executable:
        return "pip install 'perfrunner[sdk]'"
    return (
        "there: python3 -m venv DIR && DIR/bin/pip install couchbase;"
        " then client: {python: DIR/bin/python} in the spec, or --set client.python=DIR/bin/python"
    )

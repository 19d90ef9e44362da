"""Hosts: this machine or one behind SSH, driven by the same code.

with open_host(spec, "ssh", name="node", run_id=run_id) as host:
    host.lock()
    host.sweep()                                  # what an earlier run left
    path = host.deploy(artifact.path, artifact.build_id)
    engine = host.start([f"{path}/bin/kv_engine", ...], name="engine", log_stdout=..., log_stderr=...)
    ...
    result = engine.stop(grace_s=30)
"""

from perfrunner.cluster.facts import STABLE_FACTS, Facts
from perfrunner.cluster.host import Host, Swept, data_address, open_host
from perfrunner.cluster.ledger import LedgerEntry, Process
from perfrunner.cluster.local import LocalTransport
from perfrunner.cluster.lock import HostInUse
from perfrunner.cluster.process import ExitStatus, ProcessHandle, ProcessId, StopResult
from perfrunner.cluster.ssh import SshTransport
from perfrunner.cluster.transport import (
    CommandFailed,
    CommandTimeout,
    Completed,
    LinkLost,
    Transport,
)

__all__ = [
    "STABLE_FACTS",
    "CommandFailed",
    "CommandTimeout",
    "Completed",
    "ExitStatus",
    "Facts",
    "Host",
    "HostInUse",
    "LedgerEntry",
    "LinkLost",
    "LocalTransport",
    "Process",
    "ProcessHandle",
    "ProcessId",
    "SshTransport",
    "StopResult",
    "Swept",
    "Transport",
    "data_address",
    "open_host",
]

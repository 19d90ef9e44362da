"""Drive hosts: this machine or one behind SSH, with the same interface.

with open_host(spec, "ssh", name="node", run_id=run_id) as host:
    host.lock()
    host.sweep()                                  # stop the processes of earlier runs
    path = host.deploy(artifact.path, artifact.build_id)
    engine = host.start([f"{path}/bin/kv_engine", ...], name="engine", log_stdout=..., log_stderr=...)
    ...
    result = engine.stop(grace_s=30)
"""

from perfrunner.hosts.facts import Facts
from perfrunner.hosts.host import Host, Swept, data_address, destination_of, open_host
from perfrunner.hosts.local import LocalTransport
from perfrunner.hosts.lock import HostInUse
from perfrunner.hosts.process import (
    CommandFailed,
    CommandTimeout,
    Completed,
    ExitStatus,
    LinkLost,
    ProcessHandle,
    ProcessId,
    StopResult,
)
from perfrunner.hosts.registry import Process, RegistryEntry
from perfrunner.hosts.transport import Transport

__all__ = [
    "CommandFailed",
    "CommandTimeout",
    "Completed",
    "ExitStatus",
    "Facts",
    "Host",
    "HostInUse",
    "LinkLost",
    "LocalTransport",
    "Process",
    "ProcessHandle",
    "ProcessId",
    "RegistryEntry",
    "StopResult",
    "Swept",
    "Transport",
    "data_address",
    "destination_of",
    "open_host",
]

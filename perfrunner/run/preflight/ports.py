"""Whether the ports that the spec names for its engines are free, before anything is built for them."""

from __future__ import annotations

from collections.abc import Mapping

from perfrunner.cluster import Host, scripts
from perfrunner.errors import HostError
from perfrunner.spec.model import Spec
from perfrunner.spec.workloads import ToolWorkload


def require_ports(spec: Spec, hosts: Mapping[str, Host]) -> None:
    """HostError names the first engine node where one is taken. What is taken later, the engine tells."""
    wanted = [str(port) for port in named_ports(spec)]
    for name in spec.cluster.engine_nodes if wanted else ():
        argv = ["bash", "-c", scripts.BUSY_PORTS, "bash", *wanted]
        if taken := hosts[name].transport.run(argv).stdout.split():
            raise HostError(
                f"{name}: port {taken[0]} is in use", "--set engine.port=0 takes any that is free"
            )


def named_ports(spec: Spec) -> range:
    """As many from the named one as engines may be alive at once; none where the spec leaves the choice to the host."""
    first = spec.engine.port
    servers = [n for n, load in spec.workloads.items() if not isinstance(load, ToolWorkload)]
    if first == 0 or not servers:
        return range(0)
    if all(spec.schedule_of(name) == "sequential" for name in servers):
        return range(first, first + 1)
    return range(first, first + min(len(spec.variants), spec.limits.arms or len(spec.variants)))

"""Start the server of a variant in a trial: the engine, or the command of another server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfrunner.domain import TrialKey
from perfrunner.experiment.trial.command_server import CommandServer, CommandSetup, free_ports
from perfrunner.experiment.trial.engine import Engine, EngineSetup
from perfrunner.experiment.trial.placement import Deployed, Placement, client_python
from perfrunner.experiment.trial.reproduce import VariantRecorder
from perfrunner.experiment.trial.server import ServerProcess
from perfrunner.hosts.transport import Transport
from perfrunner.spec.model import Spec


@dataclass(frozen=True)
class ServerStart:
    """The settings that all servers of one trial share, on every node."""

    spec: Spec
    task: TrialKey
    deployed: Deployed
    env: Mapping[str, str]
    cpus: str

    def setup(self, placement: Placement, directory: str, port: int) -> EngineSetup | CommandSetup:
        """Return the parameters of the server on a node; `directory` is the trial's name there."""
        host = placement.host.name
        common: dict[str, Any] = {
            "tools": self.deployed.tools[host],
            "directory": f"{placement.run_dir}/{directory}",
            "credentials": placement.credentials,
            "listen": placement.listen,
            "address": placement.address,
            "port": port,
            "env": self.env,
            "cpus": self.cpus,
        }
        if self.deployed.server is not None:
            return CommandSetup(
                name="server",
                command=self.deployed.server,
                python=client_python(self.spec, host),
                **common,
            )
        engine = self.spec.engine
        several = len(self.spec.cluster.engine_nodes) > 1
        return EngineSetup(
            name=f"engine-{host}" if several else "engine",
            artifact=self.deployed.paths[host],
            bucket=self.task.bucket,
            quota_mb=engine.quota_mb,
            vbuckets=engine.vbuckets,
            threads=engine.threads,
            shards=engine.shards,
            params=self.spec.params_of(self.task.variant),
            follows=several,
            **common,
        )


def choose_ports(spec: Spec, variants: Sequence[Deployed], node: Placement) -> list[int]:
    """Return the port of each variant: those that the spec names, else 0 for an engine, which chooses itself."""
    first = spec.engine.port
    if first:
        return [first + place for place in range(len(variants))]
    count = sum(deployed.server is not None for deployed in variants)
    python = client_python(spec, node.host.name)
    free = iter(free_ports(node.host, python, node.run_dir, count) if count else ())
    return [0 if deployed.server is None else next(free) for deployed in variants]


def start_server(
    host: Transport, setup: EngineSetup | CommandSetup, recorder: VariantRecorder, run_id: str
) -> ServerProcess:
    """Start a server without waiting until it is ready. Call it inside a signal shield."""
    if isinstance(setup, EngineSetup):
        return Engine.start(host, setup, recorder, run_id)
    return CommandServer.start(host, setup, recorder, run_id)

"""Run a sampler (`kvctl sample`) on each engine node of a variant while the load runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.pinning import pinned
from perfrunner.experiment.trial.server import ServerProcess
from perfrunner.hosts.process import ProcessHandle
from perfrunner.measure.samples import Sample, add_nodes, parse_samples

if TYPE_CHECKING:
    from perfrunner.experiment.trial.bench import Bench

STOP_GRACE_S = 30.0  # the sample that is being taken may wait for a busy server


@dataclass(frozen=True)
class Sampler:
    """A running sampler: `stem` names its samples, `remote` is their file on the engine's host."""

    engine: ServerProcess
    handle: ProcessHandle
    stem: str
    remote: str


def start_sampler(bench: Bench, engine: ServerProcess, stem: str) -> Sampler:
    remote = f"{engine.setup.directory}/{stem}.jsonl"
    argv = pinned(
        engine.sampler([f"--interval-ms={bench.sample_interval_ms}", f"--out={remote}"]),
        bench.sampler_cpus,
    )
    bench.recorder.start(engine.host.name, f"sampler-{stem}", argv)
    return Sampler(engine, bench.start_helper(engine, f"sampler-{stem}", argv), stem, remote)


@dataclass
class NodesSampling:
    """The samplers of all engine nodes; `stop` returns the sum of their series, sample by sample."""

    bench: Bench
    samplers: Sequence[Sampler]

    def stop(self) -> list[Sample]:
        if self.bench.profiler is not None:
            self.bench.profiler.stop()
        per_node = []
        for sampler in self.samplers:
            host = sampler.engine.host
            self.bench.recorder.stop(host.name, f"sampler-{sampler.stem}")
            ended = sampler.handle.stop(STOP_GRACE_S).status
            self.bench.forget(sampler.handle)
            local = self.bench.directory / f"{sampler.stem}.jsonl"
            host.get_file(sampler.remote, local)
            if not ended.ok:
                self.bench.check_engines()
                raise TrialError(f"the sampler on {host.name} ended early ({ended})")
            per_node.append(parse_samples(local.read_text(encoding="utf-8"), local.name))
        return [add_nodes(instant) for instant in zip(*per_node, strict=False)]

"""A sampler (`kvctl sample`) beside each engine node of an arm, for the time of the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfrunner.cluster.process import ProcessHandle
from perfrunner.errors import TrialError
from perfrunner.measure.samples import Sample, add_nodes, parse_samples
from perfrunner.run.trial.engine import Engine
from perfrunner.run.trial.pinning import pinned

if TYPE_CHECKING:
    from perfrunner.run.trial.serverbench import Bench

STOP_GRACE_S = 5.0


@dataclass(frozen=True)
class Sampler:
    """`stem` names its samples, `remote` is where they are on the engine's host."""

    engine: Engine
    handle: ProcessHandle
    stem: str
    remote: str


def start_sampler(bench: Bench, engine: Engine, stem: str) -> Sampler:
    remote = f"{engine.setup.directory}/{stem}.jsonl"
    argv = pinned(
        engine.kvctl_argv(
            [
                "sample",
                f"--pid={engine.handle.pid}",
                f"--interval-ms={bench.sample_interval_ms}",
                f"--out={remote}",
            ]
        ),
        bench.sampler_cpus,
    )
    bench.recorder.start(engine.host.name, f"sampler-{stem}", argv)
    return Sampler(engine, bench.start_helper(engine, f"sampler-{stem}", argv), stem, remote)


@dataclass
class NodesSampling:
    """The samplers of all engine nodes, and their series added up reading by reading."""

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
            kept = self.bench.directory / f"{sampler.stem}.jsonl"
            host.get_file(sampler.remote, kept)
            if not ended.ok:
                self.bench.check_engines()
                raise TrialError(f"the sampler on {host.name} did not last to its end ({ended})")
            per_node.append(parse_samples(kept.read_text(encoding="utf-8"), kept.name))
        return [add_nodes(instant) for instant in zip(*per_node, strict=False)]

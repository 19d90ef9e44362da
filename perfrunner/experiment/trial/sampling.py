"""Sample each engine node of a variant (`kvctl sample`), once or while the load runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfrunner.errors import TrialError
from perfrunner.experiment.trial.placement import pinned
from perfrunner.experiment.trial.server import ServerProcess
from perfrunner.hosts.process import ProcessHandle
from perfrunner.measure.memory import Sample, add_nodes, parse_samples

if TYPE_CHECKING:
    from perfrunner.experiment.trial.bench import Bench

STOP_GRACE_S = 30.0  # the sample that is being taken may wait for a busy server
ONE_SAMPLE_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Sampler:
    """A running sampler: `stem` names its samples, `remote` is their file on the engine's host."""

    engine: ServerProcess
    handle: ProcessHandle
    stem: str
    remote: str


def sample_once(bench: Bench, name: str) -> Sample:
    nodes = []
    for engine, stem in _samplers(bench, name):
        local = bench.directory / f"{stem}.jsonl"
        text = engine.run(
            engine.sampler([]),
            "the sampler",
            timeout=max(1.0, min(bench.time_left(), ONE_SAMPLE_TIMEOUT_S)),
            output=local.name,
            cpus=bench.sampler_cpus,
        ).stdout
        local.write_text(text, encoding="utf-8")
        samples = parse_samples(text, local.name)
        if not samples:
            raise TrialError(f"the sampler on {engine.host.name} printed nothing")
        nodes.append(samples[0])
    return add_nodes(nodes)


def start_sampling(bench: Bench, name: str) -> NodesSampling:
    """Start the samplers, and the profiler first if the trial has one."""
    if bench.profiler is not None:
        for engine, stem in _samplers(bench, "profile"):
            bench.profiler.start(
                engine.host,
                engine.setup.directory,
                engine.handle.pid,
                name=stem,
                cpus=bench.sampler_cpus,
                recorded=True,
            )
    return NodesSampling(
        bench, [_start_sampler(bench, engine, stem) for engine, stem in _samplers(bench, name)]
    )


def _samplers(bench: Bench, name: str) -> Iterator[tuple[ServerProcess, str]]:
    """Yield each engine and the name of its samples."""
    for index, engine in enumerate(bench.engines):
        yield engine, name if len(bench.engines) == 1 else f"{name}-{index + 1}"


def _start_sampler(bench: Bench, engine: ServerProcess, stem: str) -> Sampler:
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

"""A bench that notes what a scenario asks of it, and reports of interleaved load, for tests of workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from perfrunner.measure.client import ClientCost, ClientReport, Histogram, Phase, Second
from perfrunner.measure.memory import Sample
from perfrunner.measure.slices import GroupLoad, Slices, VariantLoad
from perfrunner.spec.workloads import AppendSpec, PillowfightSpec
from perfrunner.workloads.bench import Arguments, Share

COST = ClientCost(cpu_s=0.5, wall_s=5.0, threads=2, busiest_thread_busy=0.5)
H = Histogram(((1000, 90), (5000, 10)), 5000)


def sample_of(cpu_user_s: float) -> Sample:
    """Return a sample whose only figure that matters is the CPU time."""
    figures = {"mem_used": 500.0, "total_heap_bytes": 800.0}
    return Sample(0.0, 1100, 1000, 0, 100, 0, 9000, 0, cpu_user_s, 2, figures)


class RecordingBench:
    """Notes every verb; answers with fixed figures."""

    seed = 11
    vbuckets = 64
    has_figures = True

    def __init__(self, **answers: Any) -> None:
        self.log: list[str] = []
        self.answers = answers
        self.driven = 0.0
        self.count = 1

    def load(
        self,
        tool: str,
        arguments: Arguments,
        *,
        output: str,
        single: bool = False,
        in_step: bool = False,
    ) -> ClientReport:
        self.log.append(f"load {tool} {output}")
        self.arguments = list(arguments(Share(0, self.count)))
        populating = output == "populate"
        phase = self.answers.get("phase") or Phase(
            ops=400, gets=80, sets=320, misses=0, errors={}, seconds=4.0,
            series=tuple(Second(float(t), 100, 1.0) for t in range(1, 5)),
            latency={"get": H, "set": H},
        )  # fmt: skip
        loaded = Phase(ops=100, gets=0, sets=100, misses=0, errors={}, seconds=1.0)
        self.driven += 100 if populating or tool == "append" else 0
        self.driven += 0 if populating else 400
        return ClientReport(
            tool,
            loaded if populating or tool == "append" else None,
            None if populating else phase,
            COST,
            12_345 if tool == "append" else None,
            self.answers.get("interrupted", False),
        )

    def wait_persisted(self) -> None:
        self.log.append("wait-persisted")

    def reset_stats(self) -> None:
        self.log.append("reset")
        self.driven = 0.0

    def counters(self) -> Mapping[str, float]:
        self.log.append("counters")
        return {"cmd_get": 0.0, "cmd_set": self.driven}

    def sample(self, name: str) -> Sample:
        self.log.append(f"sample {name}")
        cpu = {"before": 1.0, "now": 1.0 + 5e-4, "settled": 2.0}[name]
        return sample_of(cpu)

    def start_sampling(self, name: str) -> Any:
        self.log.append(f"start sampling {name}")
        bench = self

        class Series:
            def stop(self) -> list[Sample]:
                bench.log.append("stop sampling")
                series = [Sample(0.0, 1100, 1000, 0, 100, 0, 9000, 0, 0.0, 2, {"mem_used": 1.0})]
                return [] if bench.answers.get("no_samples") else series

        return Series()


class RecordingGroup:
    """Variants that note into one log; side by side when there are several."""

    def __init__(self, *variants: RecordingBench, loaded: GroupLoad | None = None) -> None:
        self.variants = variants
        self.loaded = loaded
        self.interleaved = loaded is not None
        self.baseline = 0
        self.log = variants[0].log
        for place, variant in enumerate(variants):
            variant.log = self.log if len(variants) == 1 else Numbered(self.log, place)

    def phase(self, name: str) -> None:
        self.log.append(f"phase {name}")

    def settle(self, seconds: float) -> None:
        self.log.append(f"settle {seconds:g}")

    def prepare_interleaved(
        self, tool: str, arguments: Callable[[Any, Share], Sequence[str]], *, output: str
    ) -> None:
        self.log.append(f"prepare {tool} {output}")
        self.prepared = list(arguments(self.variants[self.baseline], Share(0, 1)))

    def load_interleaved(
        self, tool: str, arguments: Callable[[Any, Share], Sequence[str]], *, output: str
    ) -> GroupLoad:
        self.log.append(f"loaded {tool} {output}")
        self.arguments = list(arguments(self.variants[self.baseline], Share(0, 1)))
        assert self.loaded is not None
        for variant, own in zip(self.variants, self.loaded.variants, strict=True):
            loaded = own.report.prepare.ops if own.report.prepare else 0
            assert own.report.drive is not None
            variant.driven += own.warmup_ops + loaded + own.report.drive.ops
        return self.loaded


class Numbered(list[str]):
    """The log of one variant of several: its lines go to the common one, with its place."""

    def __init__(self, common: list[str], place: int) -> None:
        super().__init__()
        self.common, self.place = common, place

    def append(self, line: str) -> None:
        self.common.append(f"{self.place}: {line}")


def alone(scenario: Any, spec: Any, **answers: Any) -> Any:
    """Return what a variant measures that runs alone."""
    (measured,) = scenario.run(RecordingGroup(RecordingBench(**answers)), spec)
    return measured


def group_load(
    rates: Sequence[float], rounds: int = 40, *, loaded: int = 0, cpu: bool = True
) -> GroupLoad:
    """Return slices of 100 operations; the last round is ten times slower for the last variant."""
    variants = []
    for place, rate in enumerate(rates):
        wall = np.full(rounds, 100 / rate * 1e9).astype(np.int64)
        if place == len(rates) - 1:
            wall[-1] *= 10
        ops = 100 * rounds
        drive = Phase(
            ops=ops, gets=ops // 2, sets=ops // 2, misses=0, errors={}, seconds=float(wall.sum()) / 1e9,
            latency={"get": H, "set": H},
        )  # fmt: skip
        prepare = Phase(loaded, 0, loaded, 0, {}, 1.0) if loaded else None
        slices = Slices(
            start_ns=np.arange(rounds), wall_ns=wall, ops=np.full(rounds, 100),
            client_cpu_ns=np.full(rounds, 50_000), position=np.zeros(rounds, np.int64),
            cpu_ns=np.full(rounds, 200_000) if cpu else None,
        )  # fmt: skip
        report = ClientReport("tool", prepare, drive, COST, 77 if loaded else None, False)
        variants.append(
            VariantLoad(report, "{}", slices, 0 if loaded else 30, 0 if loaded else 2, {})
        )
    return GroupLoad("tool", 0.002, 5, 0 if loaded else 3, rounds, 1.0, tuple(variants))


PILLOWFIGHT = PillowfightSpec.model_validate(
    {"type": "pillowfight", "items": 1000, "duration": 4, "ramp": 1, "batch": 10, "settle": 2}
)
APPEND = AppendSpec.model_validate({"type": "append", "items": 1000, "settle": 2})

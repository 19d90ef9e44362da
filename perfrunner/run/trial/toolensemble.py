"""The programs of a cell's arms, alive at once and asked for slices in turn (workloads.bench.ToolEnsemble).

The tools' artifact brings the conductor (engine_src/slices), which starts every arm's own program and prints one
document; each arm's trial keeps its part of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfrunner.cluster.environment import whole_environment
from perfrunner.errors import TrialError
from perfrunner.measure.conducted import Conducted, parse_conducted
from perfrunner.run.trial.blame import blamed, laid_to
from perfrunner.run.trial.reproduce import Recorder
from perfrunner.run.trial.toolbench import ToolBench
from perfrunner.spec.cpus import ANY, AUTO, cpu_numbers
from perfrunner.workloads.bench import Slicing

ANSWER_TIMEOUT_S = 120.0  # of one slice, the making of a benchmark's state included


@dataclass
class ToolEnsembleBench:
    """Implements workloads.bench.ToolEnsemble over the benches of its arms."""

    arms: Sequence[ToolBench]
    side_by_side: bool
    baseline: int
    recorder: Recorder
    cpus: str  # what the spec says of the engine's CPUs; auto: wherever the kernel puts a program
    round_seed: int
    on_phase: Callable[[str, float | None], None]

    def phase(self, name: str, expected_s: float | None = None) -> None:
        for arm in self.arms:
            arm.current_phase = name
        self.recorder.comment(name)
        self.on_phase(name, expected_s)

    def conduct(
        self, program: str, arguments: Sequence[str], slicing: Slicing, *, output: str
    ) -> Conducted:
        base = self.arms[self.baseline]
        plan = f"{base.remote}/plan.json"
        text = json.dumps(self._plan(program, arguments, slicing), indent=1)
        base.host.put_bytes(text.encode(), plan)
        base.recorder.write_file(base.host.name, plan, text)
        base.start([f"{base.tools}/bin/conductor", plan], {}, output)
        for arm in self.arms:
            arm.profile_child_of(base)
        try:
            base.wait("conductor", output)
        except TrialError as error:
            remote = f"{base.remote}/{output}.json"
            raise blamed(base.host, remote, len(self.arms), error) from error
        for arm in self.arms:
            arm.stop_profiling()
        kept = base.directory / "conductor.json"
        base.host.get_file(f"{base.remote}/{output}.json", kept)
        conducted = parse_conducted(kept.read_text(encoding="utf-8"), kept.name)
        if len(conducted.arms) != len(self.arms):
            raise TrialError(f"{len(conducted.arms)} programs reported, of {len(self.arms)}")
        kept.unlink()
        for place, (arm, its) in enumerate(zip(self.arms, conducted.arms, strict=True)):
            (arm.directory / f"{output}.json").write_text(its.text, encoding="utf-8")
            with laid_to(place):
                arm.check_complaints(its.stderr)
                arm.check_settings(its.context)
        return conducted

    def _plan(self, program: str, arguments: Sequence[str], slicing: Slicing) -> dict[str, object]:
        cpus = None if self.cpus in (AUTO, ANY) else list(cpu_numbers(self.cpus))
        return {
            "arms": [
                {
                    "name": str(place),
                    "argv": [f"{arm.artifact}/bin/{program}", *arguments, "--slices"],
                    "env": whole_environment(arm.environment),
                    "cpus": cpus,
                }
                for place, arm in enumerate(self.arms)
            ],
            "filter": slicing.filter,
            "slice_ms": slicing.slice_s * 1000.0,
            "min_seconds": slicing.at_least_s,
            "seed": self.round_seed,
            "freeze": slicing.frozen,
            "timeout_s": ANSWER_TIMEOUT_S,
        }

"""Run trials of stand-alone programs: a single program, or an interleaved group of programs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from perfrunner.build.settings_check import Stats, check_complaints, check_readback
from perfrunner.errors import SettingsCheckError, TrialError
from perfrunner.experiment.trial.context import TrialContext
from perfrunner.experiment.trial.outcome import attribute_by_report, attributed_to
from perfrunner.experiment.trial.placement import log_tail
from perfrunner.experiment.trial.sampling import Profiler, find_child
from perfrunner.hosts.process import CommandTimeout, ProcessHandle, whole_environment
from perfrunner.hosts.transport import Transport
from perfrunner.measure.microbench import Conducted, parse_conducted
from perfrunner.spec.units import ANY, AUTO, cpu_numbers
from perfrunner.spec.variant import Variant
from perfrunner.workloads.bench import Slicing

_ALLOCATOR = "allocator."
_BUILD = "build."


@dataclass
class ToolBench:
    """The program of one variant in one trial (implements workloads.bench.ToolBench).

    One program runs at a time; `abandon` stops it.
    """

    host: Transport
    remote: str  # the trial's directory on the host
    variant: Variant
    env: Mapping[str, str]
    trial: TrialContext
    profiler: Profiler | None = field(init=False)
    current_phase: str = "start"
    _running: list[ProcessHandle] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.profiler = Profiler(self.trial) if self.trial.profiled else None

    def tool(self, program: str, arguments: Sequence[str], *, output: str) -> str:
        argv = [f"{self.artifact}/bin/{program}", *arguments]
        self.start(argv, self.environment, output)
        if self.profiler is not None:
            self.profiler.start(self.host, self.remote, self._running[0].pid)
        self.wait(program, output)
        self.stop_profiling()
        local = self.trial.directory / f"{output}.json"
        self.host.get_file(f"{self.remote}/{output}.json", local)
        self.check_complaints(self.host.read_text(f"{self.remote}/{output}.log"))
        return local.read_text(encoding="utf-8")

    def check_settings(self, settings: Mapping[str, str]) -> None:
        try:
            # The params of a variant apply to the engine only.
            check_readback(self.variant, {}, stat_groups(settings))
        except SettingsCheckError as error:
            raise TrialError(str(error), hint=error.hint) from error

    def check_complaints(self, log: str) -> None:
        """Raise TrialError if the log shows that the allocator ignored an option."""
        try:
            check_complaints(self.variant, log)
        except SettingsCheckError as error:
            raise TrialError(str(error), hint=error.hint) from error

    # -- used by the trial runner

    @property
    def artifact(self) -> str:
        return self.trial.deployed.paths[self.host.name]

    @property
    def tools(self) -> str:
        """Return the path of the artifact that provides the conductor."""
        return self.trial.deployed.tools[self.host.name]

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the program; `TMPDIR` is different for every variant."""
        return {"TMPDIR": self.remote, **self.env}

    def profile_child_of(self, conductor: ToolBench) -> None:
        """Record a profile of this variant's program, which the conductor started."""
        if self.profiler is None or not conductor._running:
            return
        mark = f"TMPDIR={self.environment['TMPDIR']}"
        pid = find_child(self.host, conductor._running[0], mark)
        if pid is not None:
            self.profiler.start(self.host, self.remote, pid)

    def stop_profiling(self) -> None:
        """Stop perf after the program has ended."""
        if self.profiler is not None:
            self.profiler.stop()

    def start(self, argv: Sequence[str], env: Mapping[str, str], output: str) -> None:
        """Start a process on the engine node that prints `<output>.json`; call `wait` next."""
        self.trial.recorder.start(self.host.name, output, argv, env)
        log = f"{self.remote}/{output}.json"
        self.trial.start(self.host, argv, output, log, self._running, env)

    def wait(self, program: str, output: str) -> None:
        """Wait until the process has ended successfully."""
        (process,) = self._running
        self.trial.recorder.wait(output)
        self._wait(process, program, f"{self.remote}/{output}.log")

    def abandon(self, grace_s: float) -> None:
        if self.profiler is not None:
            self.profiler.abandon(grace_s)
        for process in self._running:
            process.stop(grace_s)
        self._running.clear()

    # -- internal

    def _wait(self, process: ProcessHandle, program: str, log: str) -> None:
        left = self.trial.deadline - time.monotonic()
        try:
            status = process.wait(max(0.0, left))
        except CommandTimeout:
            raise TrialError(
                f"the trial timed out in phase {self.current_phase} ({program})",
                hint="if it needs more time, raise limits.trial_timeout",
            ) from None
        process.stop(0.0)  # removes the ended process from the host's process registry
        self._running.clear()
        if not status.ok:
            tail = log_tail(self.host, log) or "no output"
            raise TrialError(f"{program} on {self.host.name} failed ({status}): {tail}")


def stat_groups(settings: Mapping[str, str]) -> Stats:
    """Convert the settings that a program reports (`build.x`, `allocator.x`) to STAT groups of an engine."""
    return {
        "config": {key: value for key, value in settings.items() if key.startswith(_BUILD)},
        "allocator": {
            key.removeprefix(_ALLOCATOR): value
            for key, value in settings.items()
            if key.startswith(_ALLOCATOR)
        },
    }


ANSWER_TIMEOUT_S = 120.0  # of one slice, including the setup of the benchmark


@dataclass
class ToolGroupBench:
    """The benches of the variants of one group (implements workloads.bench.ToolGroup)."""

    variants: Sequence[ToolBench]
    interleaved: bool
    baseline: int
    cpus: str  # engine.cpus of the spec; auto: not pinned
    round_seed: int
    on_phase: Callable[[str], None]

    def phase(self, name: str) -> None:
        for variant in self.variants:
            variant.current_phase = name
        self.variants[0].trial.recorder.comment(name)
        self.on_phase(name)

    def conduct(
        self, program: str, arguments: Sequence[str], slicing: Slicing, *, output: str
    ) -> Conducted:
        base = self.variants[self.baseline]
        plan = f"{base.remote}/plan.json"
        text = json.dumps(self._plan(program, arguments, slicing), indent=1)
        base.host.put_bytes(text.encode(), plan)
        base.trial.recorder.write_file(base.host.name, plan, text)
        base.start([f"{base.tools}/bin/conductor", plan], {}, output)
        for variant in self.variants:
            variant.profile_child_of(base)
        try:
            base.wait("conductor", output)
        except TrialError as error:
            remote = f"{base.remote}/{output}.json"
            raise attribute_by_report(base.host, remote, len(self.variants), error) from error
        for variant in self.variants:
            variant.stop_profiling()
        local = base.trial.directory / "conductor.json"
        base.host.get_file(f"{base.remote}/{output}.json", local)
        conducted = parse_conducted(local.read_text(encoding="utf-8"), local.name)
        if len(conducted.variants) != len(self.variants):
            raise TrialError(
                f"conductor reported {len(conducted.variants)} variants instead of {len(self.variants)}"
            )
        local.unlink()
        for index, (variant, part) in enumerate(
            zip(self.variants, conducted.variants, strict=True)
        ):
            (variant.trial.directory / f"{output}.json").write_text(part.text, encoding="utf-8")
            with attributed_to(index):
                variant.check_complaints(part.stderr)
                variant.check_settings(part.context)
        return conducted

    def _plan(self, program: str, arguments: Sequence[str], slicing: Slicing) -> dict[str, object]:
        cpus = None if self.cpus in (AUTO, ANY) else list(cpu_numbers(self.cpus))
        return {
            "variants": [
                {
                    "name": str(index),
                    "argv": [f"{variant.artifact}/bin/{program}", *arguments, "--slices"],
                    "env": whole_environment(variant.environment),
                    "cpus": cpus,
                }
                for index, variant in enumerate(self.variants)
            ],
            "filter": slicing.filter,
            "slice_ms": slicing.slice_s * 1000.0,
            "min_seconds": slicing.at_least_s,
            "seed": self.round_seed,
            "freeze": slicing.frozen,
            "timeout_s": ANSWER_TIMEOUT_S,
        }

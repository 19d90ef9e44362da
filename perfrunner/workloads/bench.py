"""What a scenario may do: the verbs of a trial, over one or several engine nodes and load clients.

The run package implements `ServerBench`; the scenarios in this package know nothing of hosts, transports or files.
Every verb raises TrialError when it cannot be done (the engine died, a client failed, the time is up).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from perfrunner.measure.client import ClientReport
from perfrunner.measure.conducted import Conducted
from perfrunner.measure.counters import CrossCheck
from perfrunner.measure.instructions import CountedLoad, Instructions
from perfrunner.measure.samples import Sample
from perfrunner.measure.turns import Turns


@dataclass(frozen=True)
class Share:
    """The part of the work of one load process: number `index` (from 0) of `count`."""

    index: int
    count: int

    def slice_of(self, total: int) -> tuple[int, int]:
        """(start, length) of this share; the shares cover `total` without gap or overlap."""
        start = total * self.index // self.count
        return start, total * (self.index + 1) // self.count - start

    def seed(self, seed: int) -> int:
        return seed + self.index


Arguments: TypeAlias = Callable[[Share], Sequence[str]]


@dataclass(frozen=True)
class ClientProgram:
    """A Python program of ours that is copied to the load clients: its name in messages, and the file to run there."""

    name: str
    archive: bytes

    @property
    def file(self) -> str:
        return f"{self.name}.pyz"


class Sampling(Protocol):
    """Periodic samples under way."""

    def stop(self) -> list[Sample]: ...


Step: TypeAlias = Callable[[], Mapping[str, object]]  # changes the cluster, and says how


@dataclass(frozen=True)
class Around:
    """A load that went on before, during and after a step. Instants are seconds since its mixed phase began."""

    texts: Mapping[str, str]  # what each process printed, by the name of the file that keeps it
    began: float
    ended: float
    step: Mapping[str, object]  # what the step says of itself


class ServerBench(Protocol):
    """One arm: a trial's freshly started engine and its load clients."""

    @property
    def seed(self) -> int:
        """Of this trial: drawn from the experiment's seed, the block and the workload, the same for every arm."""
        ...

    @property
    def vbuckets(self) -> int: ...

    @property
    def persistent(self) -> bool:
        """Whether the bucket's documents outlive the engine."""
        ...

    @property
    def copies(self) -> int:
        """Of each document, on as many engine nodes."""
        ...

    def load(
        self,
        tool: str,
        arguments: Arguments,
        *,
        output: str,
        single: bool = False,
        in_step: bool = False,
    ) -> ClientReport:
        """Run the load tool on every client and wait; connection and user flags are added here.

        Each process drives all engine nodes, by the cluster map. `output` names the kept JSON. `single`: only one
        process, whatever the number of clients. `in_step`: the processes begin their measured phase at one instant.
        """
        ...

    def load_program(
        self,
        program: ClientProgram,
        arguments: Arguments,
        *,
        output: str,
        processes: int,
        in_step: bool = False,
    ) -> Mapping[str, str]:
        """Run a program of ours `processes` times on every client and wait; connection and user flags are added here.

        What each printed, by the name of the file that keeps it. The processes of a client follow each other in the
        shares. `in_step`: as `load`; the program is told by `--barrier=HOST:PORT`.
        """
        ...

    def load_around(
        self,
        tool: str,
        arguments: Arguments,
        step: Step,
        *,
        output: str,
        before: float,
        after: float,
    ) -> Around:
        """Run the load tool on every client; do the step `before` seconds after its mixed phase has begun, and let
        the load go on for `after` seconds when it is done.

        The tool is told by `--begun=FILE` where to say that its mixed phase begins, and SIGTERM ends that phase.
        """
        ...

    def fail_over(self, detection: float = 0.0) -> Mapping[str, object]:
        """Kill the last engine node; after so many seconds promote its replicas, and tell the others."""
        ...

    def rebalance(self, share: float, at_once: int) -> Mapping[str, object]:
        """Move a share (percent) of the first node's active vBuckets to the second, so many at a time."""
        ...

    def kept_for(self, share: Share, name: str) -> str:
        """A file on the client of a share of `load_program`: what a process leaves there for the next program."""
        ...

    def restart(self) -> None:
        """Stop every engine cleanly and start it again on its data."""
        ...

    def wait_persisted(self) -> None: ...

    def reset_stats(self) -> None: ...

    def counters(self) -> Mapping[str, float]:
        """The default STAT group, summed over the nodes."""
        ...

    def sample(self, name: str) -> Sample:
        """One sample now, kept as `<name>.jsonl`."""
        ...

    def start_sampling(self, name: str) -> Sampling: ...

    def count_instructions(self, load: CountedLoad, ops: int) -> Instructions:
        """Of another engine of this arm, started for the count alone; no neighbour can disturb it."""
        ...


EnsembleArguments: TypeAlias = Callable[[ServerBench, Share], Sequence[str]]


class Ensemble(Protocol):
    """The arms of a cell's block that are alive at once, in the order of their slots; one arm where it runs alone."""

    @property
    def arms(self) -> Sequence[ServerBench]: ...

    @property
    def side_by_side(self) -> bool:
        """Whether the load goes round the arms in slices; else there is one arm, and it is loaded without a pause."""
        ...

    @property
    def baseline(self) -> int:
        """The arm (its place in `arms`) that the others are compared with."""
        ...

    def phase(self, name: str, expected_s: float | None = None) -> None: ...

    def prepare_in_turns(self, tool: str, arguments: EnsembleArguments, *, output: str) -> None:
        """Run the load tool once on all arms for what comes before the measured slices, and wait.

        All arms are filled at the same time: filled one after the other, the place in the order showed in the slices.
        `<output>.json` is kept with each arm's trial.
        """
        ...

    def load_in_turns(self, tool: str, arguments: EnsembleArguments, *, output: str) -> Turns:
        """Run the load tool once on all arms, slice by slice, and wait; the flags of the arms are added here.

        `<output>.json` and `slices.json` are kept with each arm's trial.
        """
        ...

    def settle(self, seconds: float) -> None: ...


class ToolBench(Protocol):
    """One arm: a trial of a program that needs no engine server. It runs by itself on the engine node."""

    def tool(self, program: str, arguments: Sequence[str], *, output: str) -> str:
        """Run a program of the artifact with the variant's environment and wait.

        The answer is what it printed, which is kept as `<output>.json`.
        """
        ...

    def check_settings(self, settings: Mapping[str, str]) -> None:
        """TrialError unless the settings that the program reports (`build.ht_stats`, `allocator.name`,
        `allocator.opt.narenas` ...) are those of the variant."""
        ...


@dataclass(frozen=True)
class Slicing:
    """How a conductor goes round programs. `frozen`: an arm that is not in turn is stopped, its background with it."""

    slice_s: float
    at_least_s: float  # of each benchmark and arm
    filter: str = "."  # regular expression over the benchmarks' own names
    frozen: bool = False


class ToolEnsemble(Protocol):
    """The programs of all arms of a cell's block, alive at once; one arm where it runs alone."""

    @property
    def arms(self) -> Sequence[ToolBench]: ...

    @property
    def side_by_side(self) -> bool: ...

    @property
    def baseline(self) -> int:
        """The arm (its place in `arms`) that the others are compared with."""
        ...

    def phase(self, name: str, expected_s: float | None = None) -> None: ...

    def conduct(
        self, program: str, arguments: Sequence[str], slicing: Slicing, *, output: str
    ) -> Conducted:
        """Run the arms' programs slice by slice and wait; what each reports of its settings has been checked.

        Each arm's part is kept as `<output>.json` with its trial.
        """
        ...


@dataclass(frozen=True)
class Measured:
    """What a scenario brings home. The rules of counting look at `report` and `check`, never at `metrics`."""

    metrics: Mapping[str, float]
    report: ClientReport | None = None
    check: CrossCheck | None = None
    facts: Mapping[str, object] = field(default_factory=dict)

"""Define the operations that a scenario uses, on one or several engine nodes and load clients.

experiment.trial implements these protocols; the scenarios in this package know nothing of hosts, transports or
files. Every operation raises TrialError when it fails (the engine died, a client failed, the trial timed out).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from perfrunner.measure.client import ClientReport, CrossCheck
from perfrunner.measure.instructions import CountedLoad, Instructions
from perfrunner.measure.memory import Sample
from perfrunner.measure.microbench import Conducted
from perfrunner.measure.slices import GroupLoad


@dataclass(frozen=True)
class Share:
    """The part of the work of one load process: number `index` (from 0) of `count`."""

    index: int
    count: int

    def slice_of(self, total: int) -> tuple[int, int]:
        """Return (start, length) of this share; the shares cover `total` without gap or overlap."""
        start = total * self.index // self.count
        return start, total * (self.index + 1) // self.count - start

    def seed(self, seed: int) -> int:
        return seed + self.index


Arguments: TypeAlias = Callable[[Share], Sequence[str]]


@dataclass(frozen=True)
class ClientProgram:
    """A Python program that is copied to the load clients.

    `name` is its name in messages; `file` is the file to run there.
    """

    name: str
    archive: bytes

    @property
    def file(self) -> str:
        return f"{self.name}.pyz"


class Sampling(Protocol):
    """Periodic sampling in progress."""

    def stop(self) -> list[Sample]: ...


# Changes the cluster and returns facts about the change.
Step: TypeAlias = Callable[[], Mapping[str, object]]


@dataclass(frozen=True)
class Around:
    """A load that ran before, during and after a step. Times are seconds since its mixed phase began."""

    texts: Mapping[str, str]  # the output of each process, by the name of its file
    began: float
    ended: float
    step: Mapping[str, object]  # facts about the step


class ServerBench(Protocol):
    """The engines and load clients of one variant in one trial."""

    @property
    def seed(self) -> int:
        """Return the seed of the trial.

        It is drawn from the experiment's seed, the block and the workload, and is the same for all variants.
        """
        ...

    @property
    def vbuckets(self) -> int: ...

    @property
    def persistent(self) -> bool:
        """Return whether the documents of the bucket survive a restart of the engine."""
        ...

    @property
    def has_figures(self) -> bool:
        """Return whether the server must tell its memory figures; a server that is not the engine may lack some."""
        ...

    @property
    def copies(self) -> int:
        """Return the number of copies of each document, each on a different engine node."""
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
        """Run the load tool on every client and wait; flags for connection and user are added.

        Each process drives all engine nodes by the cluster map.

        output: name of the JSON file that is kept.
        single: start only one process, on the first client.
        in_step: the processes start their measured phase at the same time.
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
        """Run a Python program `processes` times on every client and wait; flags for connection and user are added.

        Returns the output of each process by the name of its file. The processes of a client get consecutive shares.
        `in_step` is as for `load`; the program gets `--barrier=HOST:PORT`.
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
        """Run the load tool on every client and perform the step during its mixed phase.

        The step starts `before` seconds after the mixed phase, and the load continues for `after` seconds after the
        step. The tool reports the start of the phase in the file of `--begun=FILE`; SIGTERM ends the phase.
        """
        ...

    def fail_over(self, detection: float = 0.0) -> Mapping[str, object]:
        """Kill the last engine node, and promote its replicas after `detection` seconds."""
        ...

    def rebalance(self, share: float, at_once: int) -> Mapping[str, object]:
        """Move a share (percent) of the first node's active vBuckets to the second, `at_once` at a time."""
        ...

    def kept_for(self, share: Share, name: str) -> str:
        """Return the path of a file that a process of `load_program` leaves for the process with the same share."""
        ...

    def restart(self) -> None:
        """Stop every engine cleanly and restart it with its data."""
        ...

    def wait_persisted(self) -> None: ...

    def reset_stats(self) -> None: ...

    def counters(self) -> Mapping[str, float]:
        """Return the default STAT group, summed over the nodes."""
        ...

    def sample(self, name: str) -> Sample:
        """Take a sample now and keep it as `<name>.jsonl`."""
        ...

    def start_sampling(self, name: str) -> Sampling: ...

    def count_instructions(self, load: CountedLoad, ops: int) -> Instructions:
        """Count instructions on a separate engine of this variant, where other load cannot disturb the count."""
        ...


GroupArguments: TypeAlias = Callable[[ServerBench, Share], Sequence[str]]


class Group(Protocol):
    """The variants of a case in one block whose servers are alive at the same time, in the order of their slots.

    A variant that runs sequentially is a group of one.
    """

    @property
    def variants(self) -> Sequence[ServerBench]: ...

    @property
    def interleaved(self) -> bool:
        """Return whether the load visits the variants in slices; otherwise one variant is loaded continuously."""
        ...

    @property
    def baseline(self) -> int:
        """Return the index in `variants` of the variant that the others are compared with."""
        ...

    def phase(self, name: str) -> None: ...

    def prepare_interleaved(self, tool: str, arguments: GroupArguments, *, output: str) -> None:
        """Run the load tool once to fill all variants before the measured slices, and wait.

        All variants are filled at the same time, because an order of filling showed in the slices. `<output>.json` is
        kept with each variant's trial.
        """
        ...

    def load_interleaved(self, tool: str, arguments: GroupArguments, *, output: str) -> GroupLoad:
        """Run the load tool once on all variants, slice by slice, and wait; the flags of the variants are added.

        `<output>.json` and `slices.json` are kept with each variant's trial.
        """
        ...

    def settle(self, seconds: float) -> None: ...


class ToolBench(Protocol):
    """One variant in a trial of a stand-alone program, which runs on the engine node without an engine."""

    def tool(self, program: str, arguments: Sequence[str], *, output: str) -> str:
        """Run a program of the artifact with the variant's environment, wait, and return its output.

        The output is kept as `<output>.json`.
        """
        ...

    def check_settings(self, settings: Mapping[str, str]) -> None:
        """Raise TrialError unless the program reports the settings of the variant.

        Settings have names such as `build.ht_stats`, `allocator.name` and `allocator.opt.narenas`.
        """
        ...


@dataclass(frozen=True)
class Slicing:
    """How the conductor schedules the programs of the variants.

    `frozen`: all threads of the other variants are stopped during a slice.
    """

    slice_s: float
    at_least_s: float  # minimum time per benchmark and variant
    filter: str = "."  # regular expression for the names of the benchmarks
    frozen: bool = False


class ToolGroup(Protocol):
    """The stand-alone programs of all variants of a case in one block, alive at the same time.

    A variant that runs sequentially is a group of one.
    """

    @property
    def variants(self) -> Sequence[ToolBench]: ...

    @property
    def interleaved(self) -> bool: ...

    @property
    def baseline(self) -> int:
        """Return the index in `variants` of the variant that the others are compared with."""
        ...

    def phase(self, name: str) -> None: ...

    def conduct(
        self, program: str, arguments: Sequence[str], slicing: Slicing, *, output: str
    ) -> Conducted:
        """Run the variants' programs slice by slice, wait, and check the settings that each reports.

        Each variant's part of the report is kept as `<output>.json` with its trial.
        """
        ...


@dataclass(frozen=True)
class Measured:
    """The result of a scenario for one variant.

    The rules that discard trials use `report` and `check`, never `metrics`.
    """

    metrics: Mapping[str, float]
    report: ClientReport | None = None
    check: CrossCheck | None = None
    facts: Mapping[str, object] = field(default_factory=dict)

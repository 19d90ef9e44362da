"""Define what all packages share: case, trial key, status, verdict, stable facts of hosts. It imports nothing of ours.

Metrics are defined in spec/metrics.py, with their names, units and directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

NO_BUCKET = "-"  # the bucket of a workload that has none: it runs a program without an engine
MIN_BLOCKS = 6  # with fewer, a signed-rank test cannot reject at all (5 blocks: p >= 0.0625)
MARGIN_ROUNDING = 1e-9  # share of a margin: a change of exactly the margin is within it, up or down

TrialStatus: TypeAlias = Literal["ok", "discarded", "failed"]
Verdict: TypeAlias = Literal["better", "worse", "same", "unsure", "not comparable"]
# Protocols of the load generator that a spec can choose for a server (engine_src/load/protocols/protocol.h).
ServerProtocol: TypeAlias = Literal["binary", "text", "meta", "resp2", "resp3"]
Member: TypeAlias = tuple[str, int]  # a variant in a group of its case (0: alone)


class Case(NamedTuple):
    """A workload on a bucket type: the unit within which variants are compared."""

    workload: str
    bucket: str

    def __str__(self) -> str:
        if self.bucket == NO_BUCKET:
            return self.workload
        return f"{self.workload} · {self.bucket}"


def trial_place(variant: str, bucket: str, workload: str) -> str:
    """Return a trial's variant and case as progress and failures name them; what is empty is left out."""
    return " · ".join(part for part in (variant, bucket, workload) if part not in ("", NO_BUCKET))


def known_fields(kind: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a stored record that are fields of a dataclass; a newer perfrunner may store others."""
    return {key: value for key, value in record.items() if key in kind.__dataclass_fields__}


@dataclass(frozen=True, order=True)
class BlockCase:
    """A case in one block. It counts only if it is complete."""

    block: int
    workload: str
    bucket: str

    @property
    def case(self) -> Case:
        return Case(self.workload, self.bucket)


@dataclass(frozen=True)
class TrialKey:
    """The place of a trial in its experiment: one variant in one case of one block.

    `block` and `attempt` count from 1; `position` is the place of the trial inside its block. `group` numbers the
    groups of a case from 1: the servers of a group are alive at the same time, and the baseline is in each group.
    0 means that the trial runs alone.
    """

    block: int
    attempt: int
    position: int
    workload: str
    bucket: str
    variant: str
    group: int = field(default=0, kw_only=True)

    @property
    def case(self) -> Case:
        return Case(self.workload, self.bucket)

    @property
    def block_case(self) -> BlockCase:
        return BlockCase(self.block, self.workload, self.bucket)

    @property
    def member(self) -> Member:
        return (self.variant, self.group)


_NOT_CHECKED = "not checked: "  # begins the value of such a setting


def not_checked(expected: str, reported: str | None) -> str:
    """Format the recorded value of a skipped setting.

    `reported` is the server's value; None if it does not report the setting.
    """
    state = "not reported" if reported is None else f"reported as {reported}"
    return f"{_NOT_CHECKED}asked for {expected}, {state}"


def unchecked(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the skipped settings of a settings check: the reason by name."""
    return {
        name: value.removeprefix(_NOT_CHECKED)
        for name, value in settings.items()
        if value.startswith(_NOT_CHECKED)
    }


# Facts of a host. If one of these differs from the experiment's first reading, new measurements are not comparable.
STABLE_FACTS = (
    "boot_id", "kernel", "machine", "distribution", "cpu_model", "cpus", "memory_bytes", "thp_enabled", "thp_defrag",
    "governor", "clock_source", "turbo", "smt", "aslr", "numa_nodes", "glibc", "microcode", "swap_bytes",
    "cpus_allowed", "cgroup_cpu_max", "cgroup_memory_max_bytes", "niceness",
)  # fmt: skip

# Named conditions that a comparison requires; the report says whether they were met. Most are checked on the engine
# nodes before the first trial, those of MEASURED_PRECONDITIONS in the results.
PRECONDITIONS = {
    "thp_madvise": "transparent huge pages are in mode `madvise` on the engine node",
    "two_cores": "the engine node has at least two CPUs",
    "three_cores": "the engine node has at least three CPUs",
    "two_caches": "the engine node has at least two last-level caches",
    "metadata_visible": "huge pages of allocator metadata take at least 4 % of RSS",
}
MEASURED_PRECONDITIONS = frozenset({"metadata_visible"})

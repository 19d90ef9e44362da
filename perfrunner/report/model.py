"""The report: everything that any format shows, and nothing about how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfrunner.analysis import Cell, Comparison, Row
    from perfrunner.analysis.gains import GainLine
    from perfrunner.analysis.noise import NoiseFloor
    from perfrunner.analysis.reference import BesideLine
    from perfrunner.report.method import Method
    from perfrunner.report.profiles import CellProfiles
    from perfrunner.report.sentences import Sentence
    from perfrunner.results import BuildRecord, ExperimentRecord
    from perfrunner.spec.reference import Reference

SCHEMA = 1  # of the JSON format


class Fact(NamedTuple):
    """A labelled line of context."""

    label: str
    value: str


@dataclass(frozen=True)
class Moved:
    """What else changed with a variant in a cell, the clearest first. `more` were left out."""

    cell: Cell
    variant: str
    rows: tuple[Row, ...]
    more: int


@dataclass(frozen=True)
class Counts:
    """How the trials ended. A trial whose block was void through another arm is still `ok`."""

    ok: int
    void: int
    failed: int
    left_out: int  # ok, but in a void block: they count nowhere


@dataclass(frozen=True)
class Report:
    """`preface` says why there is no verdict, where there is none; then a sentence for each arm.

    `notes` are on primary metrics and on trials, `minor_notes` on exploratory metrics.
    """

    experiment: ExperimentRecord
    comparison: Comparison
    preface: str
    sentences: tuple[Sentence, ...]
    context: tuple[Fact, ...]
    counts: Counts
    moved: tuple[Moved, ...]
    notes: tuple[str, ...]
    minor_notes: tuple[str, ...]
    warnings: tuple[str, ...]
    noise: tuple[
        NoiseFloor, ...
    ]  # of these cells on these hosts, all metrics; empty when not measured
    differing: tuple[str, ...]  # facts that are not the same for all arms
    builds: tuple[BuildRecord, ...]
    facts: Mapping[str, Any]
    reproduce: str
    methods: tuple[Method, ...] = ()  # how it was measured, by workload: as figures
    method: tuple[Fact, ...] = ()  # and as lines
    reference: Reference | None = None  # values published before, if the spec has any
    beside: tuple[BesideLine, ...] = ()  # each of them beside ours
    gains: tuple[GainLine, ...] = ()  # what the spec knows its variants to be worth
    sources: tuple[Fact, ...] = ()  # what was built
    profiles: tuple[CellProfiles, ...] = ()  # where each arm spent its time, if it was asked for

    @property
    def headline(self) -> tuple[str, ...]:
        """What came out, as sentences that a reader can paste; at least one."""
        return (*filter(None, (self.preface,)), *map(str, self.sentences))

    def rows(self, cell: Cell) -> dict[str, list[Row]]:
        """A cell's rows by metric id, in the order of the report."""
        return self._by_cell.get(cell, {})

    @cached_property
    def _by_cell(self) -> dict[Cell, dict[str, list[Row]]]:
        found: dict[Cell, dict[str, list[Row]]] = {}
        for row in self.comparison.rows:
            found.setdefault(row.cell, {}).setdefault(row.metric.id, []).append(row)
        return found

"""Define the model of a report: the contents that all formats show, and the selection of a short table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from perfrunner.report.numbers import change_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfrunner.analysis.model import Comparison, Row
    from perfrunner.analysis.noise import NoiseFloor
    from perfrunner.analysis.published import PublishedLine
    from perfrunner.domain import Case
    from perfrunner.report.expected_gains import ExpectedGainLine
    from perfrunner.report.explain import ProfiledPair
    from perfrunner.report.method import Method
    from perfrunner.report.sentences import Sentence
    from perfrunner.results import BuildRecord, ExperimentRecord
    from perfrunner.spec.expectations import PublishedValues


SCHEMA = 2  # version of the JSON format


# Labels of the facts that say for which environment a verdict holds.
HOSTS, LOAD = "hosts", "load average before the run"


class Fact(NamedTuple):
    """A labelled line of context."""

    label: str
    value: str

    def __str__(self) -> str:
        return f"{self.label}: {self.value}"


@dataclass(frozen=True)
class Moved:
    """Other metrics that changed with a variant in a case, most significant first; `more` were left out."""

    case: Case
    variant: str
    rows: tuple[Row, ...]
    more: int

    @property
    def texts(self) -> list[str]:
        """Return each metric with its change."""
        return [f"{row.metric.id} {change_of(row)}" for row in self.rows]

    def __str__(self) -> str:
        more = f"; {self.more} more" if self.more else ""
        return f"{self.variant} · {self.case}: {'; '.join(self.texts)}{more}"


@dataclass(frozen=True)
class Counts:
    """The number of trials by status. A trial is `ok` even if another variant caused its block to be discarded."""

    ok: int
    discarded: int
    failed: int
    left_out: int  # ok, but unused because their block was discarded


@dataclass(frozen=True)
class Report:
    """The contents of a report: `preface` explains a missing verdict; there is a sentence for each variant.

    `notes` concern primary metrics and trials, `minor_notes` exploratory metrics.
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
    # All metrics of these cases on these hosts; empty if not measured.
    noise: tuple[NoiseFloor, ...]
    differing: tuple[str, ...]  # facts that differ between the builds of the variants
    builds: tuple[BuildRecord, ...]
    reproduce: str
    methods: tuple[Method, ...] = ()  # method of each workload as values
    method: tuple[Fact, ...] = ()  # the method as lines
    published: PublishedValues | None = None  # published values of the spec, if any
    published_lines: tuple[PublishedLine, ...] = ()  # each published value with the measured one
    expected_gains: tuple[ExpectedGainLine, ...] = ()  # expected gains of the spec
    sources: tuple[Fact, ...] = ()  # sources of the builds
    profiled: tuple[ProfiledPair, ...] = ()  # CPU profiles of variants, if requested

    @property
    def explanations(self) -> tuple[ProfiledPair, ...]:
        """The profiled variants with enough blocks to compare their functions."""
        return tuple(pair for pair in self.profiled if pair.explanation is not None)

    @property
    def discarded(self) -> list[str]:
        """Return a line for each discarded trial."""
        return [
            f"block {v.block}{f' attempt {v.attempt}' if v.attempt > 1 else ''}, {v.case}, {v.variant}: "
            f"{v.status}: {v.reason}"
            for v in self.comparison.discarded
        ]

    @property
    def headline(self) -> tuple[str, ...]:
        """Return the summary as sentences for pasting; at least one."""
        return (*filter(None, (self.preface,)), *map(str, self.sentences))

    def rows(self, case: Case) -> dict[str, list[Row]]:
        """Return a case's rows by metric id, in the order of the report."""
        return self._by_case.get(case, {})

    @cached_property
    def _by_case(self) -> dict[Case, dict[str, list[Row]]]:
        by_case: dict[Case, dict[str, list[Row]]] = {}
        for row in self.comparison.rows:
            by_case.setdefault(row.case, {}).setdefault(row.metric.id, []).append(row)
        return by_case


SHOWN_ALWAYS = (
    "fragmentation_mapped",
    "fragmentation_rss",
    "fragmentation_rss_now",
    "fragmentation_rss_settled",
    "fragmentation_payload_rss",
)
SHOWN_VERDICTS = ("better", "worse", "not comparable")


def primary_rows(report: Report) -> dict[str, dict[Case, list[Row]]]:
    """Return rows by metric and case: of the primary metrics, or of all if no primary one was measured."""
    rows = [row for row in report.comparison.rows if row.primary] or report.comparison.rows
    return by_metric(rows)


def by_metric(rows: Iterable[Row]) -> dict[str, dict[Case, list[Row]]]:
    """Return rows by metric and case."""
    grouped: dict[str, dict[Case, list[Row]]] = {}
    for row in rows:
        grouped.setdefault(row.metric.id, {}).setdefault(row.case, []).append(row)
    return grouped


def selected(report: Report, case: Case, *, every: bool) -> tuple[dict[str, list[Row]], int]:
    """Return a case's rows by metric, and the number of metrics left out."""
    rows = report.rows(case)
    if every or not any(_matters(group) for group in rows.values()):
        return rows, 0
    shown = {metric: group for metric, group in rows.items() if _matters(group)}
    return shown, len(rows) - len(shown)


def _matters(rows: list[Row]) -> bool:
    first = rows[0]
    return (
        first.primary
        or first.metric.id in SHOWN_ALWAYS
        or any(row.verdict in SHOWN_VERDICTS for row in rows)
    )
